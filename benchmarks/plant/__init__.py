"""PLANT: twin kernels that differ in one planted defect, to measure how good advice is.

A case is a kernel of `kernels/` as it should be, and changes of a few of its lines that plant a
defect: (family × defect × shape). Truth is the measured ratio of both. Controls are the fixed
twins, kernels at the roof, and decoys: a warning that is true and costs nothing. Compound cases
have two defects. `cases_dev` is what rules may be tuned on; `cases_test` is frozen (`frozen.json`
has the SHA-256 of its sources) and looked at once. Splits that were looked at once before are
`cases_valid`, `cases_first_test`, `cases_second_test` and `cases_third_test`; rules are tuned on
them since.
`triton_cases` has pairs in Triton.

`benchmarks/plant.py` measures, records, analyses; `scores` compares findings with the truth.
What is compiled has no mark: `# planted` is in `Case.defective` only, so no rule can read it.
"""
