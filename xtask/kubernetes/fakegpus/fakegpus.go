// Package fakegpus is a device plugin that offers GPUs which do not exist to the kubelet of its mount namespace, under
// the resource name and with the environment variable of NVIDIA's plugin.
package fakegpus

import (
	"context"
	"flag"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"k8s.io/klog/v2"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	plugin "k8s.io/kubernetes/pkg/kubelet/cm/devicemanager/plugin/v1beta1"
)

const resource = "nvidia.com/gpu"

// Run registers the devices with the kubelet, again after each restart of the kubelet, until it gets SIGTERM.
func Run(args []string) error {
	flags := flag.NewFlagSet("fake-gpus", flag.ContinueOnError)
	count := flags.Int("count", 8, "number of devices")
	if err := flags.Parse(args); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var devices []*api.Device
	for index := range *count {
		devices = append(devices, &api.Device{ID: strconv.Itoa(index), Health: api.Healthy})
	}
	stub := plugin.NewDevicePluginStub(
		klog.Background(), devices, api.DevicePluginPath+"fake-gpus.sock", resource, false, false)
	stub.SetAllocFunc(allocate)
	if err := stub.Start(ctx); err != nil {
		return err
	}
	if err := stub.Register(ctx, api.KubeletSocket, resource, api.DevicePluginPath); err != nil {
		return err
	}
	go stub.Watch(ctx, api.KubeletSocket, resource, api.DevicePluginPath)
	<-ctx.Done()
	return stub.Stop(klog.Background())
}

// allocate tells each container its devices.
func allocate(request *api.AllocateRequest, _ map[string]*api.Device) (*api.AllocateResponse, error) {
	response := &api.AllocateResponse{}
	for _, container := range request.ContainerRequests {
		response.ContainerResponses = append(response.ContainerResponses, &api.ContainerAllocateResponse{
			Envs: map[string]string{"NVIDIA_VISIBLE_DEVICES": strings.Join(container.DevicesIds, ",")},
		})
	}
	return response, nil
}
