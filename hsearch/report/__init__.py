"""What people look at: tables, pictures and pages of studies and trained networks."""
