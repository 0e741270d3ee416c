"""What the user named, turned into requests that are ready to send."""
