"""What a server tells of its own work: headers of its answers, statistics of its models, its metrics."""
