package fakekubelet

import (
	"context"
	"encoding/binary"
	"net"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	informers "k8s.io/client-go/informers/core/v1"
	listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	resources "k8s.io/component-helpers/resource"
)

// podStore is the cache of all bound pods, and the account of what the running ones use.
type podStore struct {
	lister       listers.PodLister
	registration cache.ResourceEventHandlerRegistration
	queue        interface{ Add(item) }

	mutex   sync.Mutex
	running map[string]map[types.UID]*usage
	// address is the highest address of a pod so far.
	address uint32
}

// usage is what one running pod uses of its node, and since when.
type usage struct {
	requests corev1.ResourceList
	start    time.Time
	// stop is the time at which the deletion was first seen; the API's times have no fractions of a second.
	stop time.Time
	// hasEnded is true once its processes are gone: what they used is free before anybody hears of it.
	hasEnded bool
}

func newPodStore(informer informers.PodInformer, c *carrier) (*podStore, error) {
	store := &podStore{
		lister:  informer.Lister(),
		queue:   c.queue,
		running: map[string]map[types.UID]*usage{},
		address: binary.BigEndian.Uint32(net.IPv4(10, 128, 0, 0).To4()),
	}
	var err error
	store.registration, err = informer.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { store.changed(object.(*corev1.Pod)) },
		UpdateFunc: func(_, object any) { store.changed(object.(*corev1.Pod)) },
		DeleteFunc: func(object any) {
			if unseen, isUnseen := object.(cache.DeletedFinalStateUnknown); isUnseen {
				object = unseen.Obj
			}
			if pod, isPod := object.(*corev1.Pod); isPod {
				store.release(pod)
			}
		},
	})
	return store, err
}

// registered waits until all pods that exist are in the account; false if the context ends first.
func (s *podStore) registered(ctx context.Context) bool {
	return cache.WaitForCacheSync(ctx.Done(), s.registration.HasSynced)
}

// changed brings the account up to date with a pod, and queues it.
func (s *podStore) changed(pod *corev1.Pod) {
	switch {
	case isTerminal(pod):
		s.release(pod)
	case pod.Status.Phase == corev1.PodRunning:
		s.mutex.Lock()
		s.hold(pod)
		if ip := net.ParseIP(pod.Status.PodIP).To4(); ip != nil {
			s.address = max(s.address, binary.BigEndian.Uint32(ip))
		}
		s.mutex.Unlock()
	}
	s.queue.Add(item{pod.Namespace, pod.Name})
}

// resume queues all pods of a node.
func (s *podStore) resume(node string) {
	pods, err := s.lister.List(labels.Everything())
	if err != nil {
		return
	}
	for _, pod := range pods {
		if pod.Spec.NodeName == node {
			s.queue.Add(item{pod.Namespace, pod.Name})
		}
	}
}

// admit adds a pod to the account. If it does not fit on the node, it returns the resource of which there is too little.
func (s *podStore) admit(pod *corev1.Pod, node *corev1.Node) corev1.ResourceName {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for name, wanted := range requests(pod) {
		free := node.Status.Allocatable[name].DeepCopy()
		for uid, other := range s.running[node.Name] {
			if uid != pod.UID && !other.hasEnded {
				free.Sub(other.requests[name])
			}
		}
		if free.Cmp(wanted) < 0 {
			return name
		}
	}
	s.hold(pod).start = time.Now()
	return ""
}

// hold returns the entry of a running pod, which it adds if there is none. The mutex is held.
func (s *podStore) hold(pod *corev1.Pod) *usage {
	ofNode := s.running[pod.Spec.NodeName]
	if ofNode == nil {
		ofNode = map[types.UID]*usage{}
		s.running[pod.Spec.NodeName] = ofNode
	}
	if ofNode[pod.UID] == nil {
		ofNode[pod.UID] = &usage{requests: requests(pod), start: time.Now()}
		if start := pod.Status.StartTime; start != nil {
			ofNode[pod.UID].start = start.Time
		}
	}
	return ofNode[pod.UID]
}

// release removes a pod from the account.
func (s *podStore) release(pod *corev1.Pod) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	delete(s.running[pod.Spec.NodeName], pod.UID)
}

// end notes that the processes of a pod are gone. A kubelet knows that before it reports it, whatever it has seen of
// other pods: after a lost watch reports come in any order.
func (s *podStore) end(pod *corev1.Pod) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if entry := s.running[pod.Spec.NodeName][pod.UID]; entry != nil {
		entry.hasEnded = true
	}
}

// startOf returns when a running pod started. A pod that was removed meanwhile is not in the account, and must not
// come back into it: nobody would release it.
func (s *podStore) startOf(pod *corev1.Pod) time.Time {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if entry := s.running[pod.Spec.NodeName][pod.UID]; entry != nil {
		return entry.start
	}
	return time.Now()
}

// stopOf returns when the deletion of a running pod was first seen: now, at the first call.
func (s *podStore) stopOf(pod *corev1.Pod) time.Time {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	entry := s.running[pod.Spec.NodeName][pod.UID]
	if entry == nil {
		return time.Now()
	}
	if entry.stop.IsZero() {
		entry.stop = time.Now()
	}
	return entry.stop
}

// nextAddress returns an address that no pod has.
func (s *podStore) nextAddress() string {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.address++
	return net.IP(binary.BigEndian.AppendUint32(nil, s.address)).String()
}

// requests returns what a pod takes of its node's allocatable resources.
func requests(pod *corev1.Pod) corev1.ResourceList {
	list := resources.PodRequests(pod, resources.PodResourcesOptions{})
	list[corev1.ResourcePods] = *resource.NewQuantity(1, resource.DecimalSI)
	return list
}
