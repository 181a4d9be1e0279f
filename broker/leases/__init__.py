"""The rules of leases: what may be lowered, for whom, by how much and until when. No I/O."""
