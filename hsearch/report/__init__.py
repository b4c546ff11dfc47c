"""What was found, told to people: leaderboards with their tests, and pages that stand alone."""
