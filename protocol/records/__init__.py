"""Record batches: their header, their records, compression, control records, and quick walks over them."""
