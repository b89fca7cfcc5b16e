package fakekubelet

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	informers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
)

// Sizes of the simulated network: nodes of a leaf switch, and leaves of a spine switch.
const (
	nodesOfLeaf   = 4
	leavesOfSpine = 8
)

// nodeStore is the cache of the fake nodes.
type nodeStore struct {
	lister listers.NodeLister
}

// register creates the nodes that do not exist yet.
func register(ctx context.Context, client kubernetes.Interface, count, gpus int) error {
	var next atomic.Int64
	var group sync.WaitGroup
	failures := make(chan error, workers)
	for range workers {
		group.Go(func() {
			for number := int(next.Add(1)); number <= count; number = int(next.Add(1)) {
				_, err := client.CoreV1().Nodes().Create(ctx, newNode(number, gpus), metav1.CreateOptions{})
				if err != nil && !apierrors.IsAlreadyExists(err) {
					failures <- fmt.Errorf("node%d: %w", number, err)
					return
				}
			}
		})
	}
	group.Wait()
	close(failures)
	return <-failures
}

// newNode returns a node of the size of a usual GPU server.
func newNode(number, gpus int) *corev1.Node {
	name := fmt.Sprintf("node%d", number)
	leaf := (number - 1) / nodesOfLeaf
	capacity := corev1.ResourceList{
		corev1.ResourceCPU:              resource.MustParse("128"),
		corev1.ResourceMemory:           resource.MustParse("1024Gi"),
		corev1.ResourceEphemeralStorage: resource.MustParse("1024Gi"),
		corev1.ResourcePods:             resource.MustParse("110"),
	}
	labels := map[string]string{
		ManagedLabel:                        "true",
		corev1.LabelHostname:                name,
		corev1.LabelOSStable:                "linux",
		corev1.LabelArchStable:              "amd64",
		"network.topology.nvidia.com/leaf":  fmt.Sprintf("leaf%d", leaf+1),
		"network.topology.nvidia.com/spine": fmt.Sprintf("spine%d", leaf/leavesOfSpine+1),
	}
	if gpus > 0 {
		capacity["nvidia.com/gpu"] = *resource.NewQuantity(int64(gpus), resource.DecimalSI)
		labels["nvidia.com/gpu.product"] = "NVIDIA-H100-80GB-HBM3"
		labels["nvidia.com/gpu.count"] = strconv.Itoa(gpus)
		labels["nvidia.com/gpu.memory"] = "81559"
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Status: corev1.NodeStatus{
			Capacity:    capacity,
			Allocatable: capacity,
			Conditions:  conditions(false),
			Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("10.100.%d.%d", number>>8&255, number&255)},
				{Type: corev1.NodeHostName, Address: name},
			},
			NodeInfo: corev1.NodeSystemInfo{
				OperatingSystem: "linux", Architecture: "amd64", KubeletVersion: "fake",
			},
		},
	}
}

// conditions returns the conditions of a node that works, or of one whose kubelet has stopped.
func conditions(isFailed bool) []corev1.NodeCondition {
	now := metav1.Now()
	status, reason, message := corev1.ConditionTrue, "KubeletReady", "carried by the fake kubelet"
	if isFailed {
		// Reason and message of the node lifecycle controller after its grace period.
		status, reason, message = corev1.ConditionUnknown, "NodeStatusUnknown", "Kubelet stopped posting node status."
	}
	return []corev1.NodeCondition{{
		Type: corev1.NodeReady, Status: status, Reason: reason, Message: message,
		LastHeartbeatTime: now, LastTransitionTime: now,
	}}
}

func newNodeStore(informer informers.NodeInformer, c *carrier) (*nodeStore, error) {
	store := &nodeStore{lister: informer.Lister()}
	changed := func(object any) {
		node, isNode := object.(*corev1.Node)
		if !isNode {
			return
		}
		c.queue.Add(item{name: node.Name})
	}
	_, err := informer.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: changed,
		UpdateFunc: func(before, after any) {
			changed(after)
			if isFailed(before.(*corev1.Node)) && !isFailed(after.(*corev1.Node)) {
				c.pods.resume(after.(*corev1.Node).Name)
			}
		},
	})
	return store, err
}

func isFailed(node *corev1.Node) bool {
	_, found := node.Annotations[failedAnnotation]
	return found
}

// syncNode reports the condition Ready of a node if it is not what its annotation says.
func (c *carrier) syncNode(ctx context.Context, name string) error {
	node, err := c.nodes.lister.Get(name)
	if err != nil {
		return err
	}
	wanted := conditions(isFailed(node))
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady && condition.Status == wanted[0].Status {
			return nil
		}
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": wanted}})
	if err != nil {
		return err
	}
	_, err = c.client.CoreV1().Nodes().Patch(
		ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}

// ignoreOutdated drops errors of requests about an object that is gone or has changed: its next change is handled anyway.
func ignoreOutdated(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

func logf(format string, values ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", values...)
}
