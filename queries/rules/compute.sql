-- /// rule
-- title = "Device compute owns the step"
-- bottleneck = "compute"
-- needs = ["step_cause"]
-- why = "Kernels (on a capture without device work: operators) are what the step consists of."
--
-- [params]
-- min_share = { default = 0.05, unit = "share", doc = "Exposed time below this share of the steady steps is within what repeated runs of the same loop differ by." }
-- few_matrix = { default = 0.5, unit = "share", doc = "Below this share of matrix products on matrix units, precision is the first thing to look at." }
-- large = { default = 0.3, unit = "share", doc = "A class of kernels with this share of the time is worth a change of its own." }
-- recomputed = { default = 0.15, unit = "share", doc = "From this share of the backward pass on, recomputation is worth giving back where memory allows." }
-- short_ns = { default = 10000, unit = "ns", doc = "A kernel this short costs the host about as much to launch as it takes to run." }
-- free_share = { default = 0.6, unit = "share", doc = "Below this share of reserved memory there is room for activations." }
--
-- [evidence]
-- share = { type = "double", unit = "share", doc = "Exposed time of the class divided by the time of the steady steps." }
-- per_step_ns = { type = "bigint", unit = "ns", doc = "Exposed time of the class per steady step (mean); of the window when there are no steps." }
-- path_per_step_ns = { type = "bigint", unit = "ns", doc = "The same for all its time on the path, hidden or not." }
-- steps_hit = { type = "bigint", doc = "Steady steps in which the class has exposed time." }
-- top_class = { type = "varchar", doc = "Class of kernels with the most time." }
-- top_class_share = { type = "double", unit = "share", doc = "Its share of the kernel time." }
-- top_kernel = { type = "varchar", doc = "Kernel, or operator without device work, with the most time on the path." }
-- device_busy_share = { type = "double", unit = "share", doc = "Device busy time divided by its span; NULL without device work." }
-- matrix_share = { type = "double", unit = "share", doc = "Share of the matrix products' and convolutions' time whose kernels use matrix units (tensor cores); NULL when most names do not tell." }
-- top_op = { type = "varchar", doc = "Operator that launched kernels with the most time together." }
-- top_op_share = { type = "double", unit = "share", doc = "Its share of the kernel time." }
-- top_shapes = { type = "varchar", doc = "Shapes of its inputs with the most time; NULL without record_shapes." }
-- top_types = { type = "varchar", doc = "Types of these inputs; NULL without record_shapes." }
-- pointwise_share = { type = "double", unit = "share", doc = "Share of the kernel time in elementwise, norm and reduce kernels; NULL without device work." }
-- short_share = { type = "double", unit = "share", doc = "Share of the kernels that are short; NULL without device work." }
-- occupancy_share = { type = "double", unit = "share", doc = "Estimated achieved occupancy, mean over kernel time; NULL when the capture does not say." }
-- attention_share = { type = "double", unit = "share", doc = "Share of the kernel time in attention kernels; NULL without device work." }
-- recompute_share = { type = "double", unit = "share", doc = "Share of the backward pass that computes the forward again; NULL without backward nodes." }
-- reserved_share = { type = "double", unit = "share", doc = "Most reserved memory as a share of the device's; NULL when either is not known." }
-- compiled = { type = "boolean", doc = "A compiled region or a graph launch is in the capture." }
-- not_advised = { type = "varchar", doc = "Advice that was considered and does not apply, with the reason." }
--
-- [[experiment]]
-- when = "matrix_share < few_matrix and top_class in ('gemm', 'conv')"
-- hypothesis = "{top_class_share} of the kernel time is {top_class}, and {matrix_share} of that uses matrix units: single precision without them."
-- change = "torch.set_float32_matmul_precision('high') (and torch.backends.cudnn.allow_tf32 = True for convolutions), or autocast to bfloat16; nothing else."
-- kind = "training change"
-- invariants = ["data order and coverage", "loss and optimizer", "global batch = microbatch x accumulation x data-parallel ranks", "seed policy"]
-- guards = ["numerics_within_tolerance", "task_quality", "loss_curve"]
--
-- [[experiment]]
-- when = "recompute_share >= recomputed and reserved_share < free_share"
-- hypothesis = "{recompute_share} of the backward pass computes the forward again, and only {reserved_share} of the device's memory is reserved: kept activations cost memory that is there."
-- change = "checkpoint the activations of half as many blocks; nothing else."
-- kind = "system optimization"
-- guards = ["update_parity", "peak_memory"]
--
-- [[experiment]]
-- when = "pointwise_share >= large and not compiled"
-- hypothesis = "{pointwise_share} of the kernel time is elementwise, norm and reduce kernels, which move memory; fused they move it once."
-- change = "torch.compile(model) on stable shapes; nothing else."
-- kind = "system optimization"
-- guards = ["forward_parity", "backward_parity", "update_parity", "warm_up_excluded"]
-- ///
with rank_cost as (select * from class_cost where cause = 'compute'),
by_kernel as (
  select rank, class, name, sum(busy_dur_ns) as spent, count(*) as runs, count(*) filter (where busy_dur_ns < $short_ns) as short,
    sum(occupancy_share * busy_dur_ns) as occupied, sum(busy_dur_ns) filter (where occupancy_share is not null) as occupied_of
  from device_event
  where kind in ('kernel', 'graph') and class <> 'comm'
  group by rank, class, name
),
by_class as (select rank, class, sum(spent) as spent from by_kernel group by rank, class),
class_fact as (
  select rank, arg_max(class, spent) as top_class, max(spent) / nullif(sum(spent), 0) as top_class_share,
    coalesce(sum(spent) filter (where class in ('elementwise', 'norm', 'reduce')), 0) / nullif(sum(spent), 0) as pointwise_share,
    coalesce(sum(spent) filter (where class = 'attention'), 0) / nullif(sum(spent), 0) as attention_share
  from by_class
  group by rank
),
kernel_fact as (
  select rank, sum(short) / sum(runs) as short_share, sum(occupied) / nullif(sum(occupied_of), 0) as occupancy_share
  from by_kernel
  group by rank
),
unit as (
  select product.name, arg_min(pattern.class, pattern.place) as unit
  from (select distinct name from by_kernel where class in ('gemm', 'conv')) as product
  inner join _name_pattern as pattern on pattern.target = 'matrix_unit' and regexp_full_match(lower(product.name), pattern.pattern)
  group by product.name
),
product as (
  select
    by_kernel.rank, sum(spent) as spent, sum(spent) filter (where unit.unit = 'matrix') as matrix, sum(spent) filter (where unit.unit is not null) as told
  from by_kernel
  left join unit on unit.name = by_kernel.name
  where by_kernel.class in ('gemm', 'conv')
  group by by_kernel.rank
),
by_op as (
  select rank, op, sum(total_ns) as spent, sum(total_share) as share, arg_max(shapes, total_ns) as shapes, arg_max(types, total_ns) as types
  from kernel_op
  where op is not null and class <> 'comm'
  group by rank, op
),
op_fact as (
  select rank, arg_max(op, spent) as top_op, max(share) as top_op_share, arg_max(shapes, spent) as top_shapes, arg_max(types, spent) as top_types
  from by_op
  group by rank
),
top as (
  select rank, arg_max(detail, spent) as top_kernel
  from (select rank, detail, sum(dur_ns) as spent from path_part where cause = 'compute' group by rank, detail)
  group by rank
),
busy as (select rank, sum(busy_ns) / nullif(sum(span_ns), 0) as device_busy_share from device_time group by rank),
compiling as (
  select rank, bool_or(coalesce(class in ('compiled_region', 'compiled_graph', 'compiled_lookup', 'graph_launch'), false)) as compiled
  from host_event
  group by rank
)
select
  rank_cost.rank,
  null::bigint as step,
  case when rank_cost.cost_share >= $min_share then 'hit' else 'clear' end as status,
  rank_cost.cost_ns,
  case when rank_cost.cost_share >= $min_share then 'arithmetic is what the step consists of' else 'compute is a small part of the step' end as reason,
  rank_cost.cost_share as share,
  rank_cost.per_step_ns,
  rank_cost.path_per_step_ns,
  rank_cost.steps_hit,
  class_fact.top_class,
  class_fact.top_class_share,
  top.top_kernel,
  busy.device_busy_share,
  case when product.told * 2 > product.spent then coalesce(product.matrix, 0) / product.told end::double as matrix_share,
  op_fact.top_op,
  op_fact.top_op_share::double as top_op_share,
  op_fact.top_shapes,
  op_fact.top_types,
  class_fact.pointwise_share::double as pointwise_share,
  kernel_fact.short_share::double as short_share,
  kernel_fact.occupancy_share::double as occupancy_share,
  class_fact.attention_share::double as attention_share,
  memory_pressure.recompute_share,
  memory_pressure.peak_reserved_bytes / nullif(memory_pressure.capacity_bytes, 0) as reserved_share,
  compiling.compiled,
  null::varchar as not_advised
from rank_cost
left join class_fact on class_fact.rank = rank_cost.rank
left join kernel_fact on kernel_fact.rank = rank_cost.rank
left join product on product.rank = rank_cost.rank
left join op_fact on op_fact.rank = rank_cost.rank
left join top on top.rank = rank_cost.rank
left join busy on busy.rank = rank_cost.rank
left join memory_pressure on memory_pressure.rank = rank_cost.rank
left join compiling on compiling.rank = rank_cost.rank
