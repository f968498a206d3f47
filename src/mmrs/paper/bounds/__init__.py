"""The bounds experiment: Definition 1, Lemma 2 and Theorem 1, checked by simulation."""
