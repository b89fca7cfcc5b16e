// Package fakedriver is a driver whose GPUs, which do not exist, are claimed (dynamic resource allocation) and not
// counted. It gives no device to two claims at a time, as a driver of real devices does.
package fakedriver

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"
	"k8s.io/klog/v2"
)

// name is the driver, and the domain of its attributes.
const name = "gpus.example.com"

// folder is where the kubelet of this mount namespace calls the driver.
const folder = "/var/lib/kubelet/plugins/" + name

// Run advertises the devices of a node and prepares claims, until it gets SIGTERM.
func Run(args []string) error {
	flags := flag.NewFlagSet("fake-driver", flag.ContinueOnError)
	count := flags.Int("count", 8, "number of devices")
	node := flags.String("node", "", "name of the node")
	kubeconfig := flags.String("kubeconfig", "", "file with the node's access to the API server")
	if err := flags.Parse(args); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o750); err != nil {
		return err
	}
	helper, err := kubeletplugin.Start(ctx, &driver{holders: map[string]types.UID{}},
		kubeletplugin.DriverName(name), kubeletplugin.NodeName(*node), kubeletplugin.KubeClient(client))
	if err != nil {
		return err
	}
	defer helper.Stop()
	pool := resourceslice.Pool{Slices: []resourceslice.Slice{{Devices: devices(*count)}}}
	resources := resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{*node: pool}}
	if err := helper.PublishResources(ctx, resources); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

func devices(count int) []resourceapi.Device {
	kind := "gpu"
	var all []resourceapi.Device
	for at := range count {
		index := int64(at)
		all = append(all, resourceapi.Device{
			Name: fmt.Sprintf("gpu-%d", at),
			Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
				"type": {StringValue: &kind}, "index": {IntValue: &index},
			},
		})
	}
	return all
}

// driver knows which claim holds each device.
type driver struct {
	mutex   sync.Mutex
	holders map[string]types.UID
}

// PrepareResourceClaims gives devices to claims; the kubelet starts no pod before that.
func (d *driver) PrepareResourceClaims(
	ctx context.Context, claims []*resourceapi.ResourceClaim,
) (map[types.UID]kubeletplugin.PrepareResult, error) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	results := map[types.UID]kubeletplugin.PrepareResult{}
	for _, claim := range claims {
		results[claim.UID] = d.prepare(claim)
	}
	return results, nil
}

func (d *driver) prepare(claim *resourceapi.ResourceClaim) kubeletplugin.PrepareResult {
	if claim.Status.Allocation == nil {
		return kubeletplugin.PrepareResult{Err: errors.New("the claim has no devices")}
	}
	var result kubeletplugin.PrepareResult
	for _, given := range claim.Status.Allocation.Devices.Results {
		if given.Driver != name {
			continue
		}
		if holder, held := d.holders[given.Device]; held && holder != claim.UID {
			err := fmt.Errorf("%s is held by claim %s", given.Device, holder)
			return kubeletplugin.PrepareResult{Err: err}
		}
		d.holders[given.Device] = claim.UID
		result.Devices = append(result.Devices, kubeletplugin.Device{
			Requests: []string{given.Request}, PoolName: given.Pool, DeviceName: given.Device,
		})
	}
	return result
}

// UnprepareResourceClaims takes devices back after the last pod of a claim.
func (d *driver) UnprepareResourceClaims(
	ctx context.Context, claims []kubeletplugin.NamespacedObject,
) (map[types.UID]error, error) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	results := map[types.UID]error{}
	for _, claim := range claims {
		for device, holder := range d.holders {
			if holder == claim.UID {
				delete(d.holders, device)
			}
		}
		results[claim.UID] = nil
	}
	return results, nil
}

// HandleError logs what failed in the background; the helper tries again.
func (d *driver) HandleError(ctx context.Context, err error, message string) {
	klog.FromContext(ctx).Error(err, message)
}

// WatchHealthStatus reports nothing: devices that do not exist do not fail.
func (d *driver) WatchHealthStatus(ctx context.Context, _ chan<- kubeletplugin.DeviceHealthReport) error {
	<-ctx.Done()
	return nil
}
