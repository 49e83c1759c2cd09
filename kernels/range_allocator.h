// One address range handed out in pieces to several owners. Host arithmetic alone: the memory
// behind the addresses is never touched.
//
// An owner uses its pieces in an order of its own, that of a GPU's stream, which the host runs
// ahead of. A piece that it frees may still be written by work it has enqueued: the owner itself
// may have the piece again at once, since what it enqueues next runs later; others may have it once
// the owner has waited for that work and said so (Settle).
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

  // A range of `size` bytes, rounded down to kAlignment, for uses 0 .. num_uses - 1.
  RangeAllocator(size_t size, int num_uses);

  int AddOwner();
  // Everything it holds is free for all. REQUIRES: none of its work is under way.
  void RemoveOwner(int owner);

  // The offset of at least `bytes` bytes (0 counts as 1), from the smallest free stretch that has
  // them; nullopt when none has.
  std::optional<size_t> Allocate(int owner, size_t bytes, int use);
  // REQUIRES: the offset came from Allocate for this owner and is freed once.
  void Free(int owner, size_t offset);
  // How often the owner has freed.
  uint64_t num_frees(int owner) const { return owners_.at(owner).num_frees; }
  // The host has waited for all that the owner enqueued before its first `num_frees` frees.
  void Settle(int owner, uint64_t num_frees);

  size_t size() const { return size_; }
  size_t used(int owner, int use) const { return owners_.at(owner).used[use]; }
  size_t used(int use) const;  // by all owners
  // What nobody holds; some of it may be the freed pieces of one owner, not yet settled.
  size_t unused() const;
  // The most that `owner` can have in one piece.
  size_t largest_free(int owner) const;

 private:
  static constexpr int kAnybody = -1;
  static constexpr int kFreed = -1;
  struct Piece {
    size_t size = 0;
    int owner = kAnybody;   // kAnybody: free for all
    int use = kFreed;       // kFreed: the owner has freed it
    uint64_t freed_as = 0;  // of freed pieces: the owner's number of frees, this one included
  };
  struct Owner {
    std::vector<size_t> used;  // by use
    uint64_t num_frees = 0;
  };
  using Pieces = std::map<size_t, Piece>;

  static bool IsFreeFor(const Piece& piece, int owner) {
    return piece.use == kFreed && (piece.owner == kAnybody || piece.owner == owner);
  }
  // Calls visit(first piece, bytes) for every stretch of adjacent pieces free for the owner.
  template <typename Visit>
  void ForEachStretch(int owner, const Visit& visit) const;
  void MergeFreePieces();

  size_t size_;
  int num_uses_;
  int next_owner_ = 0;
  Pieces pieces_;  // by offset; they cover the range without gaps
  std::map<int, Owner> owners_;
};

}  // namespace beamline
