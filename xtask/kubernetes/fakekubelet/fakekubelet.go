// Package fakekubelet carries the fake nodes of a test cluster: it registers them, and moves the pods that are bound
// to them through the phases that a kubelet reports. Nothing runs. One process carries all Node objects with
// ManagedLabel, also those that a test creates itself.
package fakekubelet

import (
	"context"
	"flag"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/workqueue"
)

// ManagedLabel marks a fake node, with the value "true".
const ManagedLabel = "fake-kubelet/managed"

// Annotations of fake nodes and of pods. Durations are in seconds, with fractions.
const (
	// failedAnnotation on a node, with any value: the node has stopped, as after a power failure. Its pods change no more.
	failedAnnotation = "fake-kubelet/failed"
	// runSecondsAnnotation on a pod: time after its start at which its containers exit. Without it they run until the
	// pod is deleted. Containers that the pod's restartPolicy restarts never exit.
	runSecondsAnnotation = "fake-kubelet/run-seconds"
	// exitCodeAnnotation on a pod: exit code of all its containers, 0 by default.
	exitCodeAnnotation = "fake-kubelet/exit-code"
	// stopSecondsAnnotation on a pod: time that its containers take to stop when it is deleted, 0 by default, at most
	// the pod's grace period.
	stopSecondsAnnotation = "fake-kubelet/stop-seconds"
)

// workers is the number of concurrent requests to the API server.
const workers = 16

// carrier holds what all workers share.
type carrier struct {
	client kubernetes.Interface
	pods   *podStore
	nodes  *nodeStore
	queue  workqueue.TypedRateLimitingInterface[item]
}

// item names a node, or a pod if it has a namespace.
type item struct{ namespace, name string }

// Run registers the nodes and carries them until SIGTERM.
func Run(args []string) error {
	flags := flag.NewFlagSet("fake-kubelet", flag.ContinueOnError)
	kubeconfig := flags.String("kubeconfig", "", "file that says where the API server is")
	count := flags.Int("nodes", 1, "number of nodes, named node1, node2, ...")
	gpus := flags.Int("gpus", 8, "number of GPUs of each node")
	if err := flags.Parse(args); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return err
	}
	// No limit: the number of workers is one.
	config.QPS = -1
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	if err := register(ctx, client, *count, *gpus); err != nil {
		return err
	}
	return carry(ctx, client)
}

// carry reacts to changes of nodes and pods until the context ends.
func carry(ctx context.Context, client kubernetes.Interface) error {
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[item](20*time.Millisecond, 10*time.Second)
	queue := workqueue.NewTypedRateLimitingQueue(limiter)
	of := func(tweak func(*metav1.ListOptions)) informers.SharedInformerFactory {
		return informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTweakListOptions(tweak))
	}
	nodes := of(func(options *metav1.ListOptions) { options.LabelSelector = ManagedLabel + "=true" })
	// Pending pods without a node are none of a kubelet's business.
	pods := of(func(options *metav1.ListOptions) { options.FieldSelector = "spec.nodeName!=" })
	c := &carrier{client: client, queue: queue}
	var err error
	if c.nodes, err = newNodeStore(nodes.Core().V1().Nodes(), c); err != nil {
		return err
	}
	if c.pods, err = newPodStore(pods.Core().V1().Pods(), c); err != nil {
		return err
	}
	// Nodes first, then pods: a worker decides on a pod only when all pods that its node runs are known.
	for _, factory := range []informers.SharedInformerFactory{nodes, pods} {
		factory.Start(ctx.Done())
		factory.WaitForCacheSync(ctx.Done())
	}
	if !c.pods.registered(ctx) {
		return nil
	}
	var group sync.WaitGroup
	for range workers {
		group.Go(func() { c.work(ctx) })
	}
	<-ctx.Done()
	queue.ShutDown()
	group.Wait()
	return nil
}

// work handles items until the queue is shut down.
func (c *carrier) work(ctx context.Context) {
	for {
		next, isShutDown := c.queue.Get()
		if isShutDown {
			return
		}
		var again time.Duration
		var err error
		if next.namespace == "" {
			err = c.syncNode(ctx, next.name)
		} else {
			again, err = c.syncPod(ctx, next)
		}
		c.finish(ctx, next, again, err)
		c.queue.Done(next)
	}
}

// finish decides when an item is handled again: after a failure, at a time that the item named, or at its next change.
func (c *carrier) finish(ctx context.Context, handled item, again time.Duration, err error) {
	if err = ignoreOutdated(err); err != nil && ctx.Err() == nil {
		logf("%s/%s: %v", handled.namespace, handled.name, err)
		c.queue.AddRateLimited(handled)
		return
	}
	c.queue.Forget(handled)
	if again > 0 {
		c.queue.AddAfter(handled, again)
	}
}
