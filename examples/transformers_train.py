"""Trains a small model with the Trainer of Hugging Face, saves when it is asked to, and resumes.

The callback and `resume_from_checkpoint` are all that a script of yours needs. The model is made from a configuration and the
data are random: nothing is downloaded.
"""

import os
import signal
import time

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint

STEPS = int(os.environ.get("STEPS", "400"))
FOLDER = os.environ.get("CHECKPOINT", "transformers-checkpoints")


class SaveWhenAsked(TrainerCallback):
    """Has the Trainer save at the end of the step in which Muster asked for it, and says so once it has."""

    def __init__(self):
        self.asked = False
        signal.signal(signal.SIGUSR1, self.ask)

    def ask(self, _signal, _frame):
        self.asked = True

    def on_step_end(self, args, state, control, **_):
        asked = torch.tensor([int(self.asked)], device=args.device)
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            # The ranks agree: the signal reaches them at different steps.
            torch.distributed.all_reduce(asked, op=torch.distributed.ReduceOp.MAX)
        if asked.item():
            self.asked = False
            control.should_save = True
        return control

    def on_save(self, args, state, control, **_):
        if state.is_world_process_zero:
            if "MUSTER_CHECKPOINT_FILE" in os.environ:
                with open(os.environ["MUSTER_CHECKPOINT_FILE"], "w") as told:
                    told.write(f"step {state.global_step}\n")
            print(f"saved step {state.global_step}", flush=True)

    def on_train_begin(self, args, state, control, **_):
        print(f"starts at step {state.global_step}", flush=True)

    def on_step_begin(self, args, state, control, **_):
        time.sleep(float(os.environ.get("STEP_SECONDS", "0")))  # stands for a larger model


class RandomTokens(torch.utils.data.Dataset):
    def __len__(self):
        return 256

    def __getitem__(self, at):
        tokens = torch.randint(0, 64, (16,), generator=torch.Generator().manual_seed(at))
        return {"input_ids": tokens, "labels": tokens}


def main():
    model = GPT2LMHeadModel(GPT2Config(vocab_size=64, n_positions=16, n_embd=16, n_layer=1, n_head=2))
    arguments = TrainingArguments(
        output_dir=FOLDER,
        max_steps=STEPS,
        per_device_train_batch_size=4,
        save_strategy="no",  # only when asked; `steps` saves now and then, too
        save_total_limit=2,
        disable_tqdm=True,
        report_to=[],
    )
    trainer = Trainer(model=model, args=arguments, train_dataset=RandomTokens(), callbacks=[SaveWhenAsked()])
    # A start resumes from the last checkpoint that is whole.
    last = get_last_checkpoint(FOLDER) if os.path.isdir(FOLDER) else None
    trainer.train(resume_from_checkpoint=last)
    print(f"done at step {trainer.state.global_step}", flush=True)


if __name__ == "__main__":
    main()
