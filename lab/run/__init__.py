"""`eosin lab run`: takes an application through incidents, and judges what it did."""
