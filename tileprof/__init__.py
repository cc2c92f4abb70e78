"""Where does the time of a GPU program go, why, and what to change."""
