// A whole Kubernetes in one file, for tests: the name under which it is called selects the program.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	_ "time/tzdata"

	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"

	"muster/kubernetes/certificates"
	"muster/kubernetes/coredns"
	"muster/kubernetes/fakedriver"
	"muster/kubernetes/fakegpus"
	"muster/kubernetes/fakekubelet"
)

func main() {
	os.Exit(run(filepath.Base(os.Args[0])))
}

func run(program string) int {
	switch program {
	case "etcd":
		etcdmain.Main(os.Args)
		return 0
	case "kube-apiserver":
		return cli.Run(apiserver.NewAPIServerCommand())
	case "kube-controller-manager":
		return cli.Run(controllers.NewControllerManagerCommand())
	case "kube-scheduler":
		return cli.Run(scheduler.NewSchedulerCommand())
	case "kubelet":
		return cli.Run(kubelet.NewKubeletCommand(context.Background()))
	case "kubectl":
		return cli.Run(kubectl.NewDefaultKubectlCommand())
	case "coredns":
		coredns.Run()
		return 0
	case "certificates":
		return own(certificates.Run(os.Args[1:]))
	case "fake-kubelet":
		return own(fakekubelet.Run(os.Args[1:]))
	case "fake-gpus":
		return own(fakegpus.Run(os.Args[1:]))
	case "fake-driver":
		return own(fakedriver.Run(os.Args[1:]))
	default:
		return own(errors.New("link this file as etcd, kube-apiserver, kube-controller-manager, kube-scheduler, " +
			"kubelet, kubectl, certificates, coredns, fake-kubelet, fake-gpus or fake-driver, and call the link"))
	}
}

// own prints the error of a program of ours, and returns its exit status.
func own(err error) int {
	if err == nil {
		return 0
	}
	fmt.Fprintf(os.Stderr, "error: %v\n", err)
	return 1
}
