"""What stands around the file that is timed: a model, requests, a scheduler, a server without sockets."""
