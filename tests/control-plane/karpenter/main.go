// Command karpenter is Karpenter's core with its KWOK cloud provider, for a test machine.
//
// Upstream's own program (kwok/main.go, pkg/operator) listens on every interface. This one sets the manager up
// itself: listeners on 127.0.0.1 alone and no leader election, since each run has a control plane to itself.
// The controllers, their options and their flags are upstream's.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"

	"github.com/awslabs/operatorpkg/serrors"
	"github.com/go-logr/zapr"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metrics "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	kwok "sigs.k8s.io/karpenter/kwok/cloudprovider"
	karpenterv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider/overlay"
	"sigs.k8s.io/karpenter/pkg/controllers"
	"sigs.k8s.io/karpenter/pkg/controllers/nodeoverlay"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/events"
	"sigs.k8s.io/karpenter/pkg/operator/injection"
	"sigs.k8s.io/karpenter/pkg/operator/logging"
	"sigs.k8s.io/karpenter/pkg/operator/options"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "karpenter:", err)
		os.Exit(1)
	}
}

func run() error {
	ctx := injection.WithOptionsOrDie(ctrl.SetupSignalHandler(), options.Injectables...)
	opts := options.FromContext(ctx)
	logger := serrors.NewLogger(zapr.NewLogger(logging.NewLogger(ctx, "controller")))
	log.SetLogger(logger)
	klog.SetLogger(logger)
	ctx = log.IntoContext(ctx, logger)

	mgr, err := newManager(ctx, opts)
	if err != nil {
		return err
	}
	if err := addIndexes(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	instanceTypes, err := kwok.ConstructInstanceTypes(ctx)
	if err != nil {
		return err
	}
	bare := kwok.NewCloudProvider(ctx, mgr.GetClient(), instanceTypes)
	overlays := nodeoverlay.NewInstanceTypeStore()
	provider := overlay.Decorate(bare, mgr.GetClient(), overlays)
	wallClock := clock.RealClock{}
	cluster := state.NewCluster(wallClock, mgr.GetClient(), provider)
	recorder := events.NewRecorder(mgr.GetEventRecorderFor("karpenter"))
	all := controllers.NewControllers(ctx, mgr, wallClock, mgr.GetClient(), recorder, provider, bare, cluster, overlays)
	for _, controller := range all {
		if err := controller.Register(ctx, mgr); err != nil {
			return err
		}
	}
	return mgr.Start(ctx)
}

func newManager(ctx context.Context, opts *options.Options) (manager.Manager, error) {
	config, err := ctrl.GetConfig()
	if err != nil {
		return nil, err
	}
	config.QPS = float32(opts.KubeClientQPS)
	config.Burst = opts.KubeClientBurst
	config.UserAgent = "karpenter"
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Logger: logging.IgnoreDebugEvents(log.FromContext(ctx)),
		// What a reconciler finds in its context: the options and the logger.
		BaseContext:            func() context.Context { return ctx },
		Metrics:                metrics.Options{BindAddress: fmt.Sprintf("127.0.0.1:%d", opts.MetricsPort)},
		HealthProbeBindAddress: fmt.Sprintf("127.0.0.1:%d", opts.HealthProbePort),
		Cache: cache.Options{ByObject: map[client.Object]cache.ByObject{
			// Only nodes' leases matter to it, as upstream's operator says.
			&coordinationv1.Lease{}: {
				Field: fields.OneTermEqualSelector("metadata.namespace", corev1.NamespaceNodeLease),
			},
		}},
	})
	if err != nil {
		return nil, err
	}
	return mgr, mgr.AddReadyzCheck("caches", func(request *http.Request) error {
		if !mgr.GetCache().WaitForCacheSync(request.Context()) {
			return fmt.Errorf("caches are not synchronised")
		}
		return nil
	})
}

// addIndexes registers what the controllers look objects up by. They assume these indexes (pkg/operator).
func addIndexes(ctx context.Context, indexer client.FieldIndexer) error {
	for _, index := range []struct {
		object client.Object
		field  string
		value  func(client.Object) string
	}{
		{&corev1.Pod{}, "spec.nodeName", func(o client.Object) string { return o.(*corev1.Pod).Spec.NodeName }},
		{&corev1.Node{}, "spec.providerID", func(o client.Object) string { return o.(*corev1.Node).Spec.ProviderID }},
		{&storagev1.VolumeAttachment{}, "spec.nodeName", func(o client.Object) string {
			return o.(*storagev1.VolumeAttachment).Spec.NodeName
		}},
		{&karpenterv1.NodeClaim{}, "status.providerID", func(o client.Object) string {
			return o.(*karpenterv1.NodeClaim).Status.ProviderID
		}},
		{&karpenterv1.NodeClaim{}, "spec.nodeClassRef.group", func(o client.Object) string { return ofClaim(o).Group }},
		{&karpenterv1.NodeClaim{}, "spec.nodeClassRef.kind", func(o client.Object) string { return ofClaim(o).Kind }},
		{&karpenterv1.NodeClaim{}, "spec.nodeClassRef.name", func(o client.Object) string { return ofClaim(o).Name }},
		{&karpenterv1.NodePool{}, "spec.template.spec.nodeClassRef.group", func(o client.Object) string {
			return ofPool(o).Group
		}},
		{&karpenterv1.NodePool{}, "spec.template.spec.nodeClassRef.kind", func(o client.Object) string {
			return ofPool(o).Kind
		}},
		{&karpenterv1.NodePool{}, "spec.template.spec.nodeClassRef.name", func(o client.Object) string {
			return ofPool(o).Name
		}},
	} {
		values := func(o client.Object) []string { return []string{index.value(o)} }
		if err := indexer.IndexField(ctx, index.object, index.field, values); err != nil {
			return fmt.Errorf("index %s of %T: %w", index.field, index.object, err)
		}
	}
	return nil
}

func ofClaim(o client.Object) *karpenterv1.NodeClassReference {
	return o.(*karpenterv1.NodeClaim).Spec.NodeClassRef
}

func ofPool(o client.Object) *karpenterv1.NodeClassReference {
	return o.(*karpenterv1.NodePool).Spec.Template.Spec.NodeClassRef
}
