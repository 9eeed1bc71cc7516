"""Several ranks of one job: clocks, matched collectives, who is late and why."""
