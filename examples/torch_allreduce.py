"""The smallest torch program that needs all its ranks: one all-reduce, checked. Started by torchrun."""

import torch
import torch.distributed as dist


def main():
    # Virtual GPUs have no hardware behind them: then the processes talk over gloo on the CPU.
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    device = "cpu"
    if torch.cuda.is_available():
        device = f"cuda:{rank % torch.cuda.device_count()}"
        torch.cuda.set_device(device)
    total = torch.tensor([float(rank + 1)], device=device)
    dist.all_reduce(total)
    dist.destroy_process_group()
    if total.item() != world * (world + 1) / 2:
        raise SystemExit(f"rank {rank}: the sum is {total.item()}")
    print(f"rank {rank} of {world}: the sum is right")


if __name__ == "__main__":
    main()
