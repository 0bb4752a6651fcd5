"""Two small Llama checkpoints and all that made them: corpus, training and record."""
