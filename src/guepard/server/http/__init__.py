"""HTTP/1.1, written for the inference routes; everything else rides along."""
