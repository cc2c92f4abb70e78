"""The text of a kernel that sums rows of a table by their numbers."""

__all__ = ["BAG"]

BAG = """
kernel @bag(%Table: global<1000, 128, bfloat16>, %Items: global<64, 16, int32>, \
%Out: out global<64, 128, float32>) {
  %c0 = constant 0 : index
  %c1 = constant 1 : index
  %c8 = constant 8 : index
  %c16 = constant 16 : index
  %c128 = constant 128 : index
  launch [%c8] {threads = [256]} body(%bx: index) {
    for serial %c0, %c16, %c1 body(%item: index) {
      parallel [%c8, %c128] body(%i: index, %j: index) {
        %1 = mul %bx, %c8 : index
        %2 = add %1, %i : index
        %3 = load %Items, [%2, %item] : int32
        %4 = cast %3 : index
        %5 = load %Table, [%4, %j] : bfloat16
      }
    }
  }
}
"""
