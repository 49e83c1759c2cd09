// Long because it is the whole pass of encoder and decoder layers.
#include "engine/transformer/forward.h"

#include <utility>

#include "base/check.h"
#include "engine/transformer/float_conversion.h"

namespace beamline {
namespace {

// The part of an allocated buffer that this step uses.
Tensor View(const Tensor& buffer, int64_t num_rows, int64_t width) {
  return Tensor(buffer.data, buffer.dtype, {num_rows, width});
}

void ReadPages(const KvLayer& layer, const PagedContext& context, AttentionParams& attention) {
  attention.cache = &layer;
  attention.block_tables = context.tables;
  attention.max_blocks = context.max_blocks;
  attention.context_lengths = context.lengths;
  attention.max_context_length = context.max_length;
}

}  // namespace

StackForward::StackForward(const StackSpec& spec, const StackWeights& weights,
                           std::span<const KvLayer> cache, const ActivationTensors& activations,
                           Backend& backend, Communicator* communicator, Communicator* stages)
    : spec_(spec),
      weights_(weights),
      cache_(cache),
      activations_(activations),
      backend_(backend),
      communicator_(communicator),
      stages_(stages) {}

Tensor StackForward::Encode(const PackedTokens& tokens) const {
  Stream stream = Enter(tokens);
  const bool convolves = spec_.begins() && spec_.convolution.kernel_size > 0;
  if (convolves) UnfoldEmbeddings(tokens.rows, stream.hidden);
  for (int layer = 0; layer < spec_.num_layers; ++layer) {
    PackedSelfAttention(layer, tokens, stream);
    FeedForward(layer, stream);
    if (convolves && layer == 0) Convolve(stream);
  }
  return Leave(stream);
}

const NormWeights* StackForward::EncodeLayer(int layer, const DecoderInputs& piece,
                                             const NormWeights* pending) const {
  Stream stream = layer == 0 ? Enter(piece.tokens) : Stream{Hidden(piece.tokens.rows), pending};
  CachedSelfAttention(layer, piece, stream);
  FeedForward(layer, stream);
  if (layer + 1 == spec_.num_layers) Leave(stream);
  return stream.pending;
}

void StackForward::StoreMemory(const Tensor& memory, const int32_t* slots) const {
  for (int layer = 0; layer < spec_.num_layers; ++layer) {
    ProjectHeadsParams project = Projection(memory, weights_.layers[layer]->cross_key_value);
    project.num_kv_heads = spec_.num_kv_heads;
    project.cache = &cache_[layer];
    project.slots = slots;
    backend_.ProjectHeads(project);
  }
}

Tensor StackForward::Decode(const DecoderInputs& inputs) const {
  PackedRows rows = inputs.tokens.rows;
  Stream stream = Enter(inputs.tokens);
  for (int layer = 0; layer < spec_.num_layers; ++layer) {
    CachedSelfAttention(layer, inputs, stream);
    if (spec_.ends() && layer + 1 == spec_.num_layers && inputs.wanted != nullptr) {
      // All keys and values are stored: from here on only rows with needed logits matter.
      rows = inputs.wanted_rows;
      const Tensor selected = View(activations_.selected, rows.num_rows, spec_.hidden_size);
      if (rows.num_rows == 0) return selected;
      backend_.GatherRows({stream.hidden, inputs.wanted, selected});
      if (!stream.branch.empty()) {
        const Tensor branch = View(activations_.hidden, rows.num_rows, spec_.hidden_size);
        backend_.GatherRows({stream.branch, inputs.wanted, branch});
        stream.branch = branch;
      }
      stream.hidden = selected;
    }
    if (spec_.cross_attention) CrossAttention(layer, rows, inputs.memory, stream);
    FeedForward(layer, stream);
  }
  return Leave(stream);
}

StackForward::Stream StackForward::Enter(const PackedTokens& tokens) const {
  if (spec_.begins()) return {Embed(tokens)};
  const Tensor hidden = Hidden(tokens.rows);
  stages_->Receive(hidden, stages_->rank() - 1);
  const NormWeights& pending = weights_.entry_norm;
  return {hidden, pending.gain.empty() ? nullptr : &pending};
}

Tensor StackForward::Leave(const Stream& stream) const {
  if (spec_.ends()) return LastHidden(stream);
  stages_->Send(stream.hidden, stages_->rank() + 1);
  return stream.hidden;
}

Tensor StackForward::Hidden(const PackedRows& rows) const {
  Tensor hidden = View(activations_.hidden, rows.num_rows, spec_.hidden_size);
  hidden.data = hidden.as<char>() +
                static_cast<size_t>(rows.first_row) * spec_.hidden_size * SizeOf(hidden.dtype);
  return hidden;
}

Tensor StackForward::Embed(const PackedTokens& tokens) const {
  EmbedParams embed;
  embed.token_ids = tokens.ids;
  embed.positions = tokens.positions;
  embed.type_ids = tokens.type_ids;
  embed.num_tokens = tokens.rows.num_rows;
  embed.token_table = weights_.token_table;
  if (!spec_.projects_tokens_alone) embed.position_table = weights_.position_table;
  embed.type_table = weights_.type_table;
  embed.token_scale = spec_.rounds_token_scale
                          ? RoundTo(spec_.token_scale, activations_.hidden.dtype)
                          : spec_.token_scale;
  if (!spec_.norms_projected) embed.norm = WithWeights(weights_.embedding_norm);
  const Tensor hidden = Hidden(tokens.rows);
  const bool projects = spec_.projected_size > 0;
  embed.output =
      projects ? View(activations_.embedded, tokens.rows.num_rows, spec_.projected_size) : hidden;
  if (communicator_ == nullptr) {
    backend_.Embed(embed);
  } else {
    EmbedColumns(embed);
  }
  if (projects) ProjectEmbeddings(tokens, embed.output, hidden);
  return hidden;
}

void StackForward::ProjectEmbeddings(const PackedTokens& tokens, const Tensor& embedded,
                                     const Tensor& hidden) const {
  MatMulParams product = Output(embedded, weights_.projection);
  product.y = hidden;
  if (communicator_ != nullptr) {
    product.y = View(activations_.normed, hidden.dim(0), product.weight->out_features());
  }
  if (spec_.projects_tokens_alone) {
    backend_.GatherRows({weights_.position_table, tokens.positions, product.y});
    product.residual = product.y;
  }
  backend_.MatMul(product);
  if (communicator_ != nullptr) communicator_->AllGather(product.y, hidden);
  if (spec_.norms_projected) backend_.Norm(NormOf(hidden, weights_.embedding_norm, hidden));
}

void StackForward::EmbedColumns(EmbedParams embed) const {
  const Tensor hidden = embed.output;
  const FusedNorm norm = embed.norm;
  embed.norm = {};
  embed.output = View(activations_.normed, hidden.dim(0), weights_.token_table.dim(-1));
  backend_.Embed(embed);
  communicator_->AllGather(embed.output, hidden);
  if (norm.gain.empty()) return;
  backend_.Norm({.kind = norm.kind,
                 .x = hidden,
                 .gain = norm.gain,
                 .bias = norm.bias,
                 .epsilon = norm.epsilon,
                 .y = hidden});
}

void StackForward::PackedSelfAttention(int layer, const PackedTokens& tokens,
                                       Stream& stream) const {
  const LayerWeights& weights = *weights_.layers[layer];
  AddBranch(weights.attention_norm, weights.attention_output_norm, stream,
            [&](const BranchInput& x) {
              AttentionParams attention = AttentionOver(tokens.rows);
              if (spec_.edits_heads()) {
                ProjectPacked(layer, tokens, x, attention);
              } else {
                ReadProduct(layer, x, attention);
              }
              attention.causal = spec_.causal;
              EditScores(layer, attention);
              backend_.Attention(attention);
              return Output(attention.output, weights.attention_output);
            });
}

void StackForward::ReadProduct(int layer, const BranchInput& x, AttentionParams& attention) const {
  const int64_t query_size = attention.query.dim(-1);
  const int64_t key_size = int64_t{spec_.num_kv_heads} * spec_.head_dim;
  const Tensor heads = View(activations_.workspace, x.rows.dim(0), query_size + 2 * key_size);
  Product(x, weights_.layers[layer]->qkv, heads);
  attention.query = heads.Columns(0, query_size);
  attention.key = heads.Columns(query_size, key_size);
  attention.value = heads.Columns(query_size + key_size, key_size);
  attention.scale = AttentionScale(layer);
}

void StackForward::ProjectPacked(int layer, const PackedTokens& tokens, const BranchInput& x,
                                 AttentionParams& attention) const {
  ProjectHeadsParams project = SelfProjection(layer, tokens, x);
  const int64_t key_size = int64_t{spec_.num_kv_heads} * spec_.head_dim;
  project.query = attention.query;
  project.key = attention.key = View(activations_.key, tokens.rows.num_rows, key_size);
  project.value = attention.value = View(activations_.value, tokens.rows.num_rows, key_size);
  backend_.ProjectHeads(project);
}

void StackForward::CachedSelfAttention(int layer, const DecoderInputs& inputs,
                                       Stream& stream) const {
  const LayerWeights& weights = *weights_.layers[layer];
  AddBranch(weights.attention_norm, weights.attention_output_norm, stream,
            [&](const BranchInput& x) {
              ProjectHeadsParams project = SelfProjection(layer, inputs.tokens, x);
              AttentionParams attention = AttentionOver(inputs.tokens.rows);
              project.query = attention.query;
              project.cache = &cache_[layer];
              project.slots = inputs.slots;
              ReadPages(cache_[layer], inputs.context, attention);
              attention.causal = spec_.causal;
              if (inputs.scales_scores) {
                attention.scale = std::exchange(project.query_scale, 1.0f);
              }
              EditScores(layer, attention);
              backend_.ProjectHeads(project);
              Attend(inputs.tokens.rows, inputs.context, attention);
              return Output(attention.output, weights.attention_output);
            });
}

void StackForward::Attend(const PackedRows& rows, const PagedContext& context,
                          const AttentionParams& attention) const {
  if (rows.rest_offsets == nullptr) return backend_.Attention(attention);
  const int num_rest = rows.num_rows - rows.num_single;
  AttentionParams single = attention, rest = attention;
  single.query = attention.query.First(rows.num_single);
  single.output = attention.output.First(rows.num_single);
  single.num_sequences = rows.num_single;
  single.max_query_length = 1;
  single.max_context_length = context.max_single_length;
  rest.query = attention.query.Rows(rows.num_single, num_rest);
  rest.output = attention.output.Rows(rows.num_single, num_rest);
  rest.num_sequences -= rows.num_single;
  rest.query_offsets = rows.rest_offsets;
  rest.context_lengths += rows.num_single;
  rest.block_tables += int64_t{rows.num_single} * context.max_blocks;
  backend_.Attention(single);
  backend_.Attention(rest);
}

void StackForward::CrossAttention(int layer, const PackedRows& rows, const PagedContext& memory,
                                  Stream& stream) const {
  const LayerWeights& weights = *weights_.layers[layer];
  AddBranch(weights.cross_norm, NormWeights(), stream, [&](const BranchInput& x) {
    AttentionParams attention = AttentionOver(rows);
    attention.scale = AttentionScale(layer);
    Product(x, weights.cross_query, attention.query);
    ReadPages(cache_[layer], memory, attention);
    backend_.Attention(attention);
    return Output(attention.output, weights.cross_output);
  });
}

void StackForward::FeedForward(int layer, Stream& stream) const {
  const LayerWeights& weights = *weights_.layers[layer];
  if (!weights.experts.in.empty()) return RoutedFeedForward(layer, stream);
  AddBranch(weights.feed_forward_norm, weights.feed_forward_output_norm, stream,
            [&](const BranchInput& x) {
              MatMulParams in;
              x.GiveTo(in);
              in.weight = weights.feed_forward_in.weight.get();
              in.bias = weights.feed_forward_in.bias;
              in.activation = spec_.activation;
              in.gated = spec_.gated;
              in.y = View(activations_.inner, x.rows.dim(0), spec_.feed_forward_size);
              backend_.MatMul(in);
              return Output(in.y, weights.feed_forward_out);
            });
}

void StackForward::UnfoldEmbeddings(const PackedRows& rows, const Tensor& embedded) const {
  const int32_t kernel_size = spec_.convolution.kernel_size;
  UnfoldParams unfold;
  unfold.input = embedded;
  unfold.offsets = rows.offsets;
  unfold.num_sequences = rows.num_sequences;
  unfold.kernel_size = kernel_size;
  unfold.output =
      View(activations_.unfolded, rows.num_rows, int64_t{spec_.hidden_size} * kernel_size);
  backend_.Unfold(unfold);
}

void StackForward::Convolve(Stream& stream) const {
  if (stream.pending != nullptr) {
    backend_.Norm(NormOf(stream.hidden, *stream.pending, stream.hidden));
  }
  const int64_t width = int64_t{spec_.hidden_size} * spec_.convolution.kernel_size;
  MatMulParams product =
      Output(View(activations_.unfolded, stream.hidden.dim(0), width), weights_.convolution);
  product.activation = spec_.convolution.activation;
  product.residual = product.y = stream.hidden;
  backend_.MatMul(product);
  stream.pending = &weights_.convolution_norm;
}

void StackForward::RoutedFeedForward(int layer, Stream& stream) const {
  const LayerWeights& weights = *weights_.layers[layer];
  AddBranch(weights.feed_forward_norm, weights.feed_forward_output_norm, stream,
            [&](const BranchInput& x) {
              const ExpertsSpec& spec = spec_.experts;
              const int64_t num_rows = x.rows.dim(0), num_places = num_rows * spec.num_chosen;
              const Tensor logits = View(activations_.router, num_rows, spec_.router_size());
              Product(x, weights.experts.router, logits);
              ExpertsParams experts;
              experts.x = x.norm.gain.empty() ? x.rows : x.normed;
              experts.router_logits = logits;
              experts.num_chosen = spec.num_chosen;
              experts.renormalize = spec.renormalize;
              experts.in = weights.experts.in;
              experts.out = weights.experts.out;
              experts.activation = spec_.activation;
              if (spec.shared_size > 0) {
                experts.shared = SharedExpert(weights.experts, experts.x);
              }
              experts.inner = View(activations_.expert_inner, num_places, spec.inner_size);
              experts.outputs = View(activations_.expert_outputs, num_places, spec_.hidden_size);
              return experts;
            });
}

Tensor StackForward::SharedExpert(const ExpertWeights& weights, const Tensor& x) const {
  MatMulParams in = Output(x, weights.shared_in);
  in.activation = spec_.activation;
  in.gated = true;
  in.y = View(activations_.inner, x.dim(0), spec_.experts.shared_size);
  backend_.MatMul(in);
  MatMulParams out = Output(in.y, weights.shared_out);
  out.y = View(activations_.shared, x.dim(0), spec_.hidden_size);
  backend_.MatMul(out);
  return out.y;
}

template <typename Branch>
void StackForward::AddBranch(const NormWeights& norm, const NormWeights& output_norm,
                             Stream& stream, const Branch& branch) const {
  const bool pre_norm = spec_.placement == NormPlacement::kPre;
  const bool is_second = spec_.parallel && !stream.branch.empty();
  const int64_t num_rows = stream.hidden.dim(0);
  BranchInput x;
  x.rows = stream.hidden;
  if (const NormWeights* const first = pre_norm ? &norm : stream.pending; first != nullptr) {
    x.norm = WithWeights(*first);
    x.normed = View(activations_.normed, num_rows, spec_.hidden_size);
  }
  auto last = branch(x);
  // A rank's matmul gives one term of a sum. Only the first rank adds residual and bias, fused as
  // with a single rank.
  const bool adds_residual = communicator_ == nullptr || communicator_->rank() == 0;
  const Tensor kept = View(activations_.branch, num_rows, spec_.hidden_size);
  if (!output_norm.gain.empty()) {
    last.y = kept;
    backend_.Run(&last);
    if (communicator_ != nullptr) communicator_->AllReduceSum(kept);
    NormParams normed = NormOf(kept, output_norm, stream.hidden);
    normed.addend = stream.hidden;
    backend_.Norm(normed);
    return;
  }
  if (is_second) {
    last.residual = stream.branch;  // each rank's own
    stream.branch = Tensor();
  } else if (adds_residual) {
    last.residual = pre_norm || x.norm.gain.empty() ? x.rows : x.normed;
  }
  if (spec_.parallel && !is_second) {
    last.y = stream.branch = kept;
    backend_.Run(&last);  // summed with the second branch
    return;
  }
  last.y = stream.hidden;
  backend_.Run(&last);
  if (communicator_ != nullptr) communicator_->AllReduceSum(stream.hidden);
  if (!pre_norm) stream.pending = &norm;
}

NormParams StackForward::NormOf(const Tensor& x, const NormWeights& weights,
                                const Tensor& y) const {
  NormParams norm;
  norm.kind = spec_.norm;
  norm.x = x;
  norm.gain = weights.gain;
  norm.bias = weights.bias;
  norm.epsilon = spec_.norm_epsilon;
  norm.y = y;
  return norm;
}

Tensor StackForward::LastHidden(const Stream& stream) const {
  for (const NormWeights* weights : {stream.pending, &weights_.final_norm}) {
    if (weights == nullptr || weights->gain.empty()) continue;
    backend_.Norm(NormOf(stream.hidden, *weights, stream.hidden));
  }
  return weights_.output_projection.weight == nullptr ? stream.hidden : ProjectLast(stream.hidden);
}

Tensor StackForward::ProjectLast(const Tensor& hidden) const {
  const Tensor projected = View(activations_.embedded, hidden.dim(0), spec_.projected_size);
  MatMulParams product = Output(hidden, weights_.output_projection);
  product.y = projected;
  if (communicator_ != nullptr) {
    product.y = View(activations_.normed, hidden.dim(0), product.weight->out_features());
  }
  backend_.MatMul(product);
  if (communicator_ != nullptr) communicator_->AllGather(product.y, projected);
  return projected;
}

FusedNorm StackForward::WithWeights(const NormWeights& weights) const {
  return {.kind = spec_.norm,
          .gain = weights.gain,
          .bias = weights.bias,
          .epsilon = spec_.norm_epsilon};
}

float StackForward::AttentionScale(int layer) const {
  return spec_.scale_by_inverse_layer
             ? spec_.attention_scale / static_cast<float>(spec_.first_layer + layer + 1)
             : spec_.attention_scale;
}

const Rotary* StackForward::RotaryOf(int layer) const {
  if (spec_.positions != PositionKind::kRotary) return nullptr;
  const LayerRotary rotary = spec_.layer_rotary.empty()
                                 ? LayerRotary::kMain
                                 : spec_.layer_rotary[spec_.first_layer + layer];
  switch (rotary) {
    case LayerRotary::kMain:
      return &weights_.rotary;
    case LayerRotary::kLocal:
      return &weights_.local_rotary;
    case LayerRotary::kNone:
      break;
  }
  return nullptr;
}

void StackForward::EditScores(int layer, AttentionParams& attention) const {
  if (!spec_.attention_windows.empty()) {
    attention.window = spec_.attention_windows[spec_.first_layer + layer];
  }
  attention.softcap = spec_.attention_softcap;
  attention.position_bias = weights_.position_bias;
  if (weights_.distance_rows != nullptr) {
    RelativePositions& relative = attention.relative;
    relative.keys = weights_.layers[layer]->position_keys;
    relative.queries = weights_.layers[layer]->position_queries;
    relative.rows = weights_.distance_rows;
    relative.max_distance = weights_.max_distance;
  }
  attention.rounded_alibi_factor = spec_.rounded_alibi_factor;
  if (!weights_.alibi_slopes.empty()) {
    attention.alibi_slopes = weights_.alibi_slopes.as<float>();
  }
}

void StackForward::Product(const BranchInput& x, const LinearWeights& linear,
                           const Tensor& y) const {
  MatMulParams product;
  x.GiveTo(product);
  product.weight = linear.weight.get();
  product.bias = linear.bias;
  product.y = y;
  backend_.MatMul(product);
}

MatMulParams StackForward::Output(const Tensor& x, const LinearWeights& linear) const {
  MatMulParams product;
  product.x = x;
  product.weight = linear.weight.get();
  product.bias = linear.bias;
  return product;
}

ProjectHeadsParams StackForward::Projection(const Tensor& x, const LinearWeights& linear) const {
  ProjectHeadsParams project;
  project.x = x;
  project.weight = linear.weight.get();
  project.bias = linear.bias;
  project.head_dim = spec_.head_dim;
  project.workspace = View(activations_.workspace, x.dim(0), linear.weight->out_features());
  return project;
}

ProjectHeadsParams StackForward::SelfProjection(int layer, const PackedTokens& tokens,
                                                const BranchInput& x) const {
  const LayerWeights& weights = *weights_.layers[layer];
  ProjectHeadsParams project = Projection(x.rows, weights.qkv);
  x.GiveTo(project);
  project.num_heads = spec_.num_heads;
  project.num_kv_heads = spec_.num_kv_heads;
  project.clip = spec_.head_clip;
  project.query_norm = WithWeights(weights.query_norm);
  project.key_norm = WithWeights(weights.key_norm);
  project.rotary = RotaryOf(layer);
  if (project.rotary != nullptr) project.positions = tokens.positions;
  project.query_scale = AttentionScale(layer);
  return project;
}

AttentionParams StackForward::AttentionOver(const PackedRows& rows) const {
  const int64_t width = int64_t{spec_.num_heads} * spec_.head_dim;
  AttentionParams attention;
  attention.query = View(activations_.query, rows.num_rows, width);
  attention.num_heads = spec_.num_heads;
  attention.num_kv_heads = spec_.num_kv_heads;
  attention.head_dim = spec_.head_dim;
  attention.num_sequences = rows.num_sequences;
  attention.query_offsets = rows.offsets;
  attention.max_query_length = rows.max_length;
  attention.output = View(activations_.attended, rows.num_rows, width);
  return attention;
}

}  // namespace beamline
