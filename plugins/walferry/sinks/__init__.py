"""Where edits go. Each package here is a kind of target; nothing above knows what its requests look like."""
