package fakekubelet

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// signalled is the exit code of containers that stop because their pod is deleted: 128 + SIGTERM.
const signalled = 143

// syncPod takes the next step of a pod. It returns the time after which the pod must be handled again, or 0 if the next
// step depends on a change.
func (c *carrier) syncPod(ctx context.Context, named item) (time.Duration, error) {
	pod, err := c.pods.lister.Pods(named.namespace).Get(named.name)
	if err != nil {
		return 0, err
	}
	node, err := c.nodes.lister.Get(pod.Spec.NodeName)
	if err != nil || isFailed(node) {
		return 0, err
	}
	switch {
	case pod.DeletionTimestamp != nil:
		return c.stop(ctx, pod)
	case isTerminal(pod):
		return 0, nil
	case pod.Status.Phase == corev1.PodRunning:
		return c.run(ctx, pod)
	default:
		return 0, c.start(ctx, pod, node)
	}
}

func isTerminal(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// start reports a pod as running, or as failed if it does not fit beside those that the node already runs.
func (c *carrier) start(ctx context.Context, pod *corev1.Pod, node *corev1.Node) error {
	if missing := c.pods.admit(pod, node); missing != "" {
		return c.report(ctx, pod, rejectedStatus(missing))
	}
	status := runningStatus(pod, c.pods.nextAddress(), addressOf(node))
	err := c.report(ctx, pod, status)
	if err != nil {
		c.pods.release(pod)
	}
	return err
}

// run reports a pod as ended when its time is over.
func (c *carrier) run(ctx context.Context, pod *corev1.Pod) (time.Duration, error) {
	exitCode, _ := strconv.ParseInt(pod.Annotations[exitCodeAnnotation], 10, 32)
	run, hasEnd := seconds(pod, runSecondsAnnotation)
	if !hasEnd || isRestarted(pod, exitCode) {
		return 0, nil
	}
	if left := time.Until(c.pods.startOf(pod).Add(run)); left > 0 {
		return left, nil
	}
	c.pods.end(pod)
	return 0, c.report(ctx, pod, endedStatus(pod, int32(exitCode)))
}

// isRestarted returns true if a kubelet would start the containers again after this exit code.
func isRestarted(pod *corev1.Pod, exitCode int64) bool {
	policy := pod.Spec.RestartPolicy
	return policy == corev1.RestartPolicyAlways || policy == corev1.RestartPolicyOnFailure && exitCode != 0
}

// stop ends a deleted pod after the time that its containers need for it, and removes its object.
func (c *carrier) stop(ctx context.Context, pod *corev1.Pod) (time.Duration, error) {
	if pod.Status.Phase == corev1.PodRunning {
		wait, _ := seconds(pod, stopSecondsAnnotation)
		if grace := pod.DeletionGracePeriodSeconds; grace != nil {
			wait = min(wait, time.Duration(*grace)*time.Second)
		}
		if left := time.Until(c.pods.stopOf(pod).Add(wait)); left > 0 {
			return left, nil
		}
		c.pods.end(pod)
		if err := c.report(ctx, pod, endedStatus(pod, signalled)); err != nil {
			return 0, err
		}
	}
	options := metav1.NewDeleteOptions(0)
	options.Preconditions = metav1.NewUIDPreconditions(string(pod.UID))
	return 0, c.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, *options)
}

// report writes the status of a pod, unless the pod has changed since it was read.
func (c *carrier) report(ctx context.Context, pod *corev1.Pod, status corev1.PodStatus) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID, "resourceVersion": pod.ResourceVersion},
		"status":   status,
	})
	if err != nil {
		return err
	}
	_, err = c.client.CoreV1().Pods(pod.Namespace).Patch(
		ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}

// seconds reads a duration from an annotation; false if it is absent or not a number.
func seconds(pod *corev1.Pod, annotation string) (time.Duration, bool) {
	value, err := strconv.ParseFloat(pod.Annotations[annotation], 64)
	if err != nil || value < 0 {
		return 0, false
	}
	return time.Duration(value * float64(time.Second)), true
}
