"""Critical path of one rank: timelines, steps, waits, the walk."""
