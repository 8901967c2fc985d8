// Command kubernetes is etcd, the three servers of a Kubernetes control plane and kubectl in one program: they
// share most of their code, so one link of them is a fraction of the size and of the build of five.
//
// The first argument names the part; what follows is that part's own command line. The parts are upstream's,
// unchanged. `certs` and `ports` are ours: what a control plane of one test run needs before it starts.
package main

import (
	"fmt"
	"os"
	_ "time/tzdata" // the controller manager's CronJobs look zones up, and a small machine has no zoneinfo

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

// The server parts by the name of their upstream program.
var servers = map[string]func() *cobra.Command{
	"kube-apiserver":          apiserver.NewAPIServerCommand,
	"kube-controller-manager": controllers.NewControllerManagerCommand,
	"kube-scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
}

const usage = "usage: kubernetes PART ARGUMENT...\n" +
	"parts: etcd kube-apiserver kube-controller-manager kube-scheduler kubectl certs ports"

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, usage)
		os.Exit(2)
	}
	part := os.Args[1]
	// Each part reads os.Args itself: to it, its own name comes first.
	os.Args = os.Args[1:]
	switch part {
	case "etcd":
		etcdmain.Main(os.Args)
	case "kubectl":
		if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
			util.CheckErr(err)
		}
	case "certs":
		failed(writeCerts(os.Args[1:]))
	case "ports":
		failed(printPorts(os.Args[1:]))
	default:
		server, known := servers[part]
		if !known {
			fmt.Fprintf(os.Stderr, "no part %q\n%s\n", part, usage)
			os.Exit(2)
		}
		os.Exit(cli.Run(server()))
	}
}

func failed(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, os.Args[0]+":", err)
		os.Exit(1)
	}
}
