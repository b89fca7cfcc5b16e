"""Parts of the executor for submitit. Only `muster.submitit` imports them: submitit is optional."""
