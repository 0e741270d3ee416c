"""Ways for tensors to come and go beside the bodies of messages."""
