"""Where the mechanisms meet: models are loaded, requests find them, batches execute."""
