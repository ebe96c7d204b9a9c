"""What ``playhead doctor`` looks at: one module for each dependency, each check a function that yields findings."""
