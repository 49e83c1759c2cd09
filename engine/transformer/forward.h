// One stack of layers over a packed batch: embeddings, attention, feed forward, norms, as the spec
// says. Every array is on the device.
#pragma once

#include <cstdint>
#include <span>

#include "engine/transformer/activations.h"
#include "engine/transformer/spec.h"
#include "engine/transformer/weights.h"
#include "kernels/backend.h"
#include "kernels/communicator.h"

namespace beamline {

// The rows of a packed batch and how they divide into sequences.
struct PackedRows {
  int num_rows = 0;
  int num_sequences = 0;
  int max_length = 0;                // rows of the longest sequence
  const int32_t* offsets = nullptr;  // [num_sequences + 1]
  int first_row = 0;                 // of the residual stream's, in its buffer
  // Where the sequences that have a row each, which come first, are attended apart from the others:
  // how many they are, and the others' offsets from their first row on.
  int num_single = 0;
  const int32_t* rest_offsets = nullptr;  // [num_sequences - num_single + 1]; null: not so
};

struct PackedTokens {
  PackedRows rows;
  const int32_t* ids = nullptr;        // [num_rows]
  const int32_t* positions = nullptr;  // [num_rows], rows of the position table
  const int32_t* type_ids = nullptr;   // [num_rows]; null without a type table
};

// The positions of the cache that each sequence of a batch reads.
struct PagedContext {
  const int32_t* lengths = nullptr;  // [num_sequences]
  int max_length = 0;
  int max_single_length = 0;  // of PackedRows::num_single
  int32_t* tables = nullptr;  // [num_sequences, max_blocks]
  int max_blocks = 0;
};

struct DecoderInputs {
  PackedTokens tokens;
  const int32_t* slots = nullptr;  // [num_rows], where each token's keys and values go
  PagedContext context;            // of self attention, this step's tokens included
  PagedContext memory;             // of cross attention
  // Whether the scores of self attention are scaled, and not the queries: as an encoder's attention
  // does where nothing else is done to queries (StackSpec::edits_heads).
  bool scales_scores = false;
  // The tokens whose last hidden states are wanted, ascending; null: all of them.
  const int32_t* wanted = nullptr;  // [wanted_rows.num_rows]
  PackedRows wanted_rows;
};

class StackForward {
 public:
  // Everything must outlive this object. `cache` has one entry per layer of a decoder. The spec and
  // the weights are those of one rank where there is a communicator; null: of the whole. Where
  // there are `stages` (stage.h) they are those of one stage: hidden states come from the one
  // before it, unless it begins the stack, and go to the one behind it, unless it ends the stack.
  StackForward(const StackSpec& spec, const StackWeights& weights, std::span<const KvLayer> cache,
               const ActivationTensors& activations, Backend& backend, Communicator* communicator,
               Communicator* stages);

  // The last hidden states of an encoder, [num_rows, hidden_size]; of a stage that does not end it
  // those that it leaves to the next.
  Tensor Encode(const PackedTokens& tokens) const;
  // Stores the keys and values that every layer of a decoder with cross attention makes of the
  // encoder's last hidden states, [num_rows, hidden_size], at `slots`, [num_rows].
  void StoreMemory(const Tensor& memory, const int32_t* slots) const;
  // One layer over a piece of an input: a causal stack's, whose keys and values go through the
  // cache as a decoder's. Before the first layer the piece is embedded, after the last one the
  // rows of the residual stream are the last hidden states. `pending`: the norm that the layer
  // before left to be applied, which it returned. REQUIRES: one rank, one stage.
  const NormWeights* EncodeLayer(int layer, const DecoderInputs& piece,
                                 const NormWeights* pending) const;
  // The wanted last hidden states of a decoder, [wanted_rows.num_rows, hidden_size], as the head
  // reads them, so that of projected ones [.., projected_size]; of a stage that does not end it as
  // Encode.
  Tensor Decode(const DecoderInputs& inputs) const;

 private:
  // The residual stream between two branches.
  struct Stream {
    Tensor hidden;  // [num_rows, hidden_size]
    // Post-norm: what is still to be applied to it. Its next reader does, on the way.
    const NormWeights* pending = nullptr;
    // Of parallel branches what the first has computed, with hidden in it. Empty: nothing.
    Tensor branch;
  };

  // What a branch reads: rows, and the norm that its first product applies to them.
  struct BranchInput {
    Tensor rows;
    FusedNorm norm;  // may be none
    Tensor normed;   // where that product leaves norm(rows)

    template <typename Params>
    void GiveTo(Params& product) const {
      product.x = rows;
      product.input_norm = norm;
      product.normed = normed;
    }
  };

  // What the first layer here reads.
  Stream Enter(const PackedTokens& tokens) const;
  // What becomes of the stream behind the last layer here.
  Tensor Leave(const Stream& stream) const;
  Tensor Hidden(const PackedRows& rows) const;
  Tensor Embed(const PackedTokens& tokens) const;
  // The same of a rank's columns of the tables, gathered.
  void EmbedColumns(EmbedParams embed) const;
  // hidden = what the projection makes of embeddings, and what is added behind it.
  void ProjectEmbeddings(const PackedTokens& tokens, const Tensor& embedded,
                         const Tensor& hidden) const;
  // An encoder's: over the rows' own keys and values.
  void PackedSelfAttention(int layer, const PackedTokens& tokens, Stream& stream) const;
  // Queries, keys and values for it where nothing is done to them: read where the product lies, so
  // that nothing moves them to places of their own; the scale waits for the scores.
  void ReadProduct(int layer, const BranchInput& x, AttentionParams& attention) const;
  // The same behind norms of heads and rotation, in places of their own.
  void ProjectPacked(int layer, const PackedTokens& tokens, const BranchInput& x,
                     AttentionParams& attention) const;
  // A decoder's: through the cache.
  void CachedSelfAttention(int layer, const DecoderInputs& inputs, Stream& stream) const;
  // Through the cache, by two calls where the rows say so.
  void Attend(const PackedRows& rows, const PagedContext& context,
              const AttentionParams& attention) const;
  void CrossAttention(int layer, const PackedRows& rows, const PagedContext& memory,
                      Stream& stream) const;
  void FeedForward(int layer, Stream& stream) const;
  // What a convolution of the embeddings multiplies, and its branch behind the first layer, which
  // every rank computes whole.
  void UnfoldEmbeddings(const PackedRows& rows, const Tensor& embedded) const;
  void Convolve(Stream& stream) const;
  // The same by a few experts of each row.
  void RoutedFeedForward(int layer, Stream& stream) const;
  // What the expert of all rows makes of them.
  Tensor SharedExpert(const ExpertWeights& weights, const Tensor& x) const;

  // hidden += branch(norm(hidden)), or hidden = norm(hidden + branch(hidden)), whose norm then is
  // pending. branch(input) returns its last operator, which lacks the residual and where it goes.
  // With an output norm hidden += output_norm(branch(norm(hidden))).
  // Of parallel branches the first is kept, and the second adds both.
  template <typename Branch>
  void AddBranch(const NormWeights& norm, const NormWeights& output_norm, Stream& stream,
                 const Branch& branch) const;
  // norm(x) into y.
  NormParams NormOf(const Tensor& x, const NormWeights& weights, const Tensor& y) const;
  // The stream behind its last norms, and its projection where it has one.
  Tensor LastHidden(const Stream& stream) const;
  Tensor ProjectLast(const Tensor& hidden) const;
  FusedNorm WithWeights(const NormWeights& weights) const;
  float AttentionScale(int layer) const;
  // What self attention does to scores: window, cap and biases.
  void EditScores(int layer, AttentionParams& attention) const;
  const Rotary* RotaryOf(int layer) const;  // null: the layer rotates nothing
  // y = x W^T + bias.
  void Product(const BranchInput& x, const LinearWeights& linear, const Tensor& y) const;
  // A branch's last product: x W^T + bias.
  MatMulParams Output(const Tensor& x, const LinearWeights& linear) const;
  // What ProjectHeads of `linear` and Attention over `rows` have in common here.
  ProjectHeadsParams Projection(const Tensor& x, const LinearWeights& linear) const;
  AttentionParams AttentionOver(const PackedRows& rows) const;
  // Of a layer's own queries, keys and values, without where they go.
  ProjectHeadsParams SelfProjection(int layer, const PackedTokens& tokens,
                                    const BranchInput& x) const;

  const StackSpec& spec_;
  const StackWeights& weights_;
  const std::span<const KvLayer> cache_;
  const ActivationTensors& activations_;
  Backend& backend_;
  Communicator* const communicator_;
  Communicator* const stages_;
};

}  // namespace beamline
