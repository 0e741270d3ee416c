"""Memory for tensors that outlives them, so that it need not be made anew for each."""
