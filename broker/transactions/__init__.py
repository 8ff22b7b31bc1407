"""The broker's side of transactions: verification of writes, connections of producers, and names of their ids."""
