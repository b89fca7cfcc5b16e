// Package coredns is the DNS server of the cluster: CoreDNS with the plugins of xtask/src/kubernetes/conf/Corefile.
package coredns

import (
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/ready"
	_ "github.com/coredns/coredns/plugin/template"
)

// Run serves until a signal ends the process.
func Run() {
	coremain.Run()
}
