# Creates what the programs of a node share, then holds it: arguments are the node's folder and name. The programs have
# fixed paths for these folders, so each node mounts its own over those of the machine, in a mount namespace of its own.
set -e
for pair in kubelet:/var/lib/kubelet run:/run/containerd netns:/run/netns containers:/var/log/containers; do
    mkdir -p "${pair#*:}"
    mount --bind "$1/${pair%%:*}" "${pair#*:}"
done
mount --make-rshared /var/lib/kubelet
hostname "$2"
exec sleep infinity
