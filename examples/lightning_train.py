"""Trains a small model with Lightning, saves when it is asked to, and resumes.

The callback is all that a LightningModule of yours needs; it works with one process and with several.
"""

import os
import signal
import time

import torch

try:
    import lightning.pytorch as lightning
except ImportError:
    import pytorch_lightning as lightning

STEPS = int(os.environ.get("STEPS", "400"))
PLACE = os.environ.get("CHECKPOINT", "lightning-checkpoint.ckpt")


class SaveWhenAsked(lightning.Callback):
    """Saves a checkpoint at the end of the batch in which Muster asked for one, and says so."""

    def __init__(self, place):
        self.place = place
        self.asked = False

    def setup(self, trainer, module, stage):
        signal.signal(signal.SIGUSR1, self.ask)

    def ask(self, _signal, _frame):
        self.asked = True

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        # The ranks agree: the signal reaches them at different steps, and all of them must save together.
        if not trainer.strategy.reduce_boolean_decision(self.asked, all=False):
            return
        self.asked = False
        trainer.save_checkpoint(self.place + ".new")
        if trainer.is_global_zero:
            os.replace(self.place + ".new", self.place)
            if "MUSTER_CHECKPOINT_FILE" in os.environ:
                with open(os.environ["MUSTER_CHECKPOINT_FILE"], "w") as told:
                    told.write(f"step {trainer.global_step}\n")
            print(f"saved step {trainer.global_step}", flush=True)


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(32, 1)

    def on_train_start(self):
        print(f"starts at step {self.global_step}", flush=True)

    def training_step(self, batch, _index):
        time.sleep(float(os.environ.get("STEP_SECONDS", "0")))  # stands for a larger model
        (inputs,) = batch
        return (self.layer(inputs) - inputs.sum(dim=1, keepdim=True)).pow(2).mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)


def main():
    lightning.seed_everything(0)
    data = torch.utils.data.TensorDataset(torch.randn(16 * 16, 32))
    trainer = lightning.Trainer(
        max_steps=STEPS,
        max_epochs=-1,
        accelerator="auto",
        devices="auto" if torch.cuda.is_available() else 1,
        callbacks=[SaveWhenAsked(PLACE)],
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        logger=False,
    )
    loader = torch.utils.data.DataLoader(data, batch_size=16)
    # A start resumes from what was saved.
    trainer.fit(Model(), loader, ckpt_path=PLACE if os.path.exists(PLACE) else None)
    print(f"done at step {trainer.global_step}", flush=True)


if __name__ == "__main__":
    main()
