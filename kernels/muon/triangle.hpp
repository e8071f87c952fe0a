// The tiles that a symmetric matrix needs, in pairs that lie in one column: a cluster of two blocks shares what the column brings.
//
// Of n strips of rows there are n·(n + 1)/2 tiles (i, j) up to symmetry. Column j has those with i >= j, n - j of them. Where that is odd, the column gives its third
// tile, (j + 2, j), to the next odd column, which does it as (j, j + 2): so all columns are even but, for some n, the last, whose only tile is a pair of its own.
#pragma once

#include "tensor/function.hpp"

namespace mylos::kernels::detail {

struct TilePair {
  int first, second, column;  // two rows of tiles; the same one: there is no second
};

struct TriangleColumn {
  int strips, column;
  bool gives, takes;

  MYLOS_FUNCTION TriangleColumn(int n, int j) : strips(n), column(j), gives(false), takes(false) {
    if ((n - j) % 2 == 0) return;
    const int odd = (j - (n % 2 == 0 ? 1 : 0)) / 2;  // of the odd columns
    gives = odd % 2 == 0 && j + 2 < n;
    takes = odd % 2 == 1;
  }
  MYLOS_FUNCTION int tiles() const { return strips - column - (gives ? 1 : 0) + (takes ? 1 : 0); }
  MYLOS_FUNCTION int pairs() const { return (tiles() + 1) / 2; }
  MYLOS_FUNCTION int row(int at) const {
    if (takes && at == strips - column) return column - 2;
    return column + at + (gives && at >= 2 ? 1 : 0);
  }
};

MYLOS_FUNCTION int pairs_of_triangle(int strips) { return (strips * (strips + 1) / 2 + 1) / 2; }

MYLOS_FUNCTION TilePair pair_of_triangle(int strips, int index) {
  int j = 0;
  while (true) {
    const TriangleColumn column(strips, j);
    if (index < column.pairs()) {
      const int first = column.row(2 * index);
      return {first, 2 * index + 1 < column.tiles() ? column.row(2 * index + 1) : first, j};
    }
    index -= column.pairs();
    ++j;
  }
}

}  // namespace mylos::kernels::detail
