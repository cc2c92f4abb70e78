"""Operations on profiles: each returns a new profile or a comparison.

In: profiles.  Out: filtered, regrouped, joined or compared ones.  Totals are conserved."""
