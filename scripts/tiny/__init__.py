"""The built-in model: corpus, tokenizer, training, evaluation (see ../train_tiny.py)."""
