"""The load generator: what is sent when, the clients that send it, and the processes they run in."""
