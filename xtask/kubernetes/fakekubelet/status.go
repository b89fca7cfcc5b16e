package fakekubelet

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// runningStatus returns the status of a pod all of whose containers have just started.
func runningStatus(pod *corev1.Pod, address, host string) corev1.PodStatus {
	now := metav1.Now()
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}}
	initialized := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		Reason: "Completed", StartedAt: now, FinishedAt: now,
	}}
	return corev1.PodStatus{
		Phase:     corev1.PodRunning,
		StartTime: &now,
		HostIP:    host,
		HostIPs:   []corev1.HostIP{{IP: host}},
		PodIP:     address,
		PodIPs:    []corev1.PodIP{{IP: address}},
		Conditions: []corev1.PodCondition{
			podCondition(corev1.PodReadyToStartContainers, corev1.ConditionTrue, ""),
			podCondition(corev1.PodInitialized, corev1.ConditionTrue, ""),
			podCondition(corev1.ContainersReady, corev1.ConditionTrue, ""),
			podCondition(corev1.PodReady, corev1.ConditionTrue, ""),
		},
		InitContainerStatuses: containers(pod.Spec.InitContainers, initialized, true),
		ContainerStatuses:     containers(pod.Spec.Containers, running, true),
	}
}

// endedStatus returns the changed part of the status of a pod all of whose containers have just exited.
func endedStatus(pod *corev1.Pod, exitCode int32) corev1.PodStatus {
	phase, reason := corev1.PodSucceeded, "Completed"
	if exitCode != 0 {
		phase, reason = corev1.PodFailed, "Error"
	}
	exited := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		ExitCode: exitCode, Reason: reason, FinishedAt: metav1.Now(),
	}}
	if start := pod.Status.StartTime; start != nil {
		exited.Terminated.StartedAt = *start
	}
	return corev1.PodStatus{
		Phase: phase,
		Conditions: []corev1.PodCondition{
			podCondition(corev1.PodReadyToStartContainers, corev1.ConditionFalse, ""),
			podCondition(corev1.ContainersReady, corev1.ConditionFalse, "PodCompleted"),
			podCondition(corev1.PodReady, corev1.ConditionFalse, "PodCompleted"),
		},
		ContainerStatuses: containers(pod.Spec.Containers, exited, false),
	}
}

// rejectedStatus returns the status that a kubelet reports for a pod that it does not admit.
func rejectedStatus(missing corev1.ResourceName) corev1.PodStatus {
	now := metav1.Now()
	return corev1.PodStatus{
		Phase:     corev1.PodFailed,
		StartTime: &now,
		Reason:    "OutOf" + string(missing),
		Message:   fmt.Sprintf("Pod was rejected: Node didn't have enough resource: %s", missing),
	}
}

func podCondition(kind corev1.PodConditionType, status corev1.ConditionStatus, reason string) corev1.PodCondition {
	return corev1.PodCondition{Type: kind, Status: status, Reason: reason, LastTransitionTime: metav1.Now()}
}

// containers returns the same state for each container.
func containers(specs []corev1.Container, state corev1.ContainerState, isReady bool) []corev1.ContainerStatus {
	isStarted := state.Running != nil
	var statuses []corev1.ContainerStatus
	for _, spec := range specs {
		statuses = append(statuses, corev1.ContainerStatus{
			Name: spec.Name, Image: spec.Image, State: state, Ready: isReady, Started: &isStarted,
		})
	}
	return statuses
}

// addressOf returns the internal address of a node.
func addressOf(node *corev1.Node) string {
	for _, address := range node.Status.Addresses {
		if address.Type == corev1.NodeInternalIP {
			return address.Address
		}
	}
	return ""
}
