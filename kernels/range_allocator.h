// Divides one address range among several owners. It only computes offsets, and never accesses the
// memory.
//
// An owner uses its pieces in stream order on a GPU, and the host runs ahead of that. Work that is
// already enqueued may still write a freed piece. The owner itself may get the piece again at once,
// as its later work runs later. Other owners may get it only after Settle, which says that the
// owner has waited for that work.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace beamline {

// Not thread-safe.
class RangeAllocator {
 public:
  static constexpr size_t kAlignment = 256;  // of offsets and sizes

  // `size`: bytes, rounded down to kAlignment. Uses are numbered 0 .. num_uses - 1.
  RangeAllocator(size_t size, int num_uses);

  int AddOwner();
  // Frees everything that the owner holds, for all owners. REQUIRES: none of its work is running.
  void RemoveOwner(int owner);

  // The offset of at least `bytes` bytes (0 counts as 1), in the smallest free stretch that is
  // large enough. nullopt if there is none.
  std::optional<size_t> Allocate(int owner, size_t bytes, int use);
  // REQUIRES: `offset` came from Allocate for this owner, and is freed once.
  void Free(int owner, size_t offset);
  // Number of Free calls of the owner.
  uint64_t num_frees(int owner) const { return owners_.at(owner).num_frees; }
  // Reports that the host has waited for all work that the owner enqueued before its first
  // `num_frees` frees.
  void Settle(int owner, uint64_t num_frees);

  size_t size() const { return size_; }
  size_t used(int owner, int use) const { return owners_.at(owner).used[use]; }
  size_t used(int use) const;  // by all owners
  // Bytes that no owner holds. Some may be freed pieces of one owner that are not settled.
  size_t unused() const;
  // The largest piece that `owner` can allocate.
  size_t largest_free(int owner) const;

 private:
  static constexpr int kAnybody = -1;
  static constexpr int kFreed = -1;
  struct Piece {
    size_t size = 0;
    int owner = kAnybody;   // kAnybody: free for all
    int use = kFreed;       // kFreed: the owner has freed it
    uint64_t freed_as = 0;  // for freed pieces: num_frees of the owner after this free
  };
  struct Owner {
    std::vector<size_t> used;  // by use
    uint64_t num_frees = 0;
  };
  using Pieces = std::map<size_t, Piece>;

  static bool IsFreeFor(const Piece& piece, int owner) {
    return piece.use == kFreed && (piece.owner == kAnybody || piece.owner == owner);
  }
  // Calls visit(first piece, bytes) for each stretch of adjacent pieces that are free for the
  // owner.
  template <typename Visit>
  void ForEachStretch(int owner, const Visit& visit) const;
  void MergeFreePieces();

  size_t size_;
  int num_uses_;
  int next_owner_ = 0;
  Pieces pieces_;  // by offset; covers the range without gaps
  std::map<int, Owner> owners_;
};

}  // namespace beamline
