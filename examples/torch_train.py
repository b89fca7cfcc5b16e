"""Trains a small model with DistributedDataParallel, saves when it is asked to, and resumes. Started by torchrun.

What is needed for that is marked with [1] to [4]; the rest is an ordinary training loop.
"""

import os
import signal
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

STEPS = int(os.environ.get("STEPS", "400"))
PLACE = os.environ.get("CHECKPOINT", "torch-checkpoint.pt")

# [1] The handler only sets a flag: saving in a handler could begin in the middle of a step. Install it early. torchrun
# and the shell around it do not handle the signal, so Muster leaves them alone.
asked = False


def ask(_signal, _frame):
    global asked
    asked = True


signal.signal(signal.SIGUSR1, ask)


def save(step, model, optimizer):
    """Saves to disk, then tells Muster: a stop may follow at once."""
    if dist.get_rank() == 0:
        state = {"step": step, "model": model.module.state_dict(), "optimizer": optimizer.state_dict()}
        with open(PLACE + ".new", "wb") as file:
            torch.save(state, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(PLACE + ".new", PLACE)
        if "MUSTER_CHECKPOINT_FILE" in os.environ:
            with open(os.environ["MUSTER_CHECKPOINT_FILE"], "w") as told:
                told.write(f"step {step}\n")
        print(f"saved step {step}", flush=True)
    dist.barrier()


def main():
    has_gpu = torch.cuda.is_available()
    dist.init_process_group("nccl" if has_gpu else "gloo")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if has_gpu else torch.device("cpu")
    if has_gpu:
        torch.cuda.set_device(device)
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Linear(32, 1).to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    # [2] A start looks for what was saved.
    start = 0
    if os.path.exists(PLACE):
        state = torch.load(PLACE, map_location=device)
        model.module.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        start = state["step"]
    if dist.get_rank() == 0:
        print(f"starts at step {start}", flush=True)

    global asked
    for step in range(start + 1, STEPS + 1):
        inputs = torch.randn(16, 32, device=device)
        loss = (model(inputs) - inputs.sum(dim=1, keepdim=True)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        time.sleep(float(os.environ.get("STEP_SECONDS", "0")))  # stands for a larger model

        # [3] The signal reaches the ranks at different steps: they agree on one.
        flag = torch.tensor([int(asked)], device=device)
        dist.all_reduce(flag, op=dist.ReduceOp.MAX)
        if flag.item():
            asked = False
            save(step, model, optimizer)

    # [4] A job that ends by itself is done.
    if dist.get_rank() == 0:
        print(f"done at step {STEPS}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
