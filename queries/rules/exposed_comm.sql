-- /// rule
-- title = "Communication is exposed"
-- bottleneck = "exposed_comm"
-- needs = ["step_cause"]
-- why = "Time in which the device only communicates, or the loop waits for a collective, and nothing computes."
--
-- [params]
-- min_share = { default = 0.05, unit = "share", doc = "Exposed time below this share of the steady steps is within what repeated runs of the same loop differ by." }
-- small_bytes = { default = 1048576, unit = "bytes", doc = "Collectives below this size are bound by latency and not by the link." }
-- many = { default = 20, doc = "So many small collectives a step are worth bundling." }
-- buckets = { default = 4, doc = "A bucket size is suggested that makes so many of a step's bytes: enough to overlap with backward, each far above latency." }
-- accumulated = { default = 1.5, doc = "From so many batches per update on, gradients are accumulated." }
-- hidden = { default = 0.5, unit = "share", doc = "Communication that is hidden less than this starts too late." }
--
-- [evidence]
-- share = { type = "double", unit = "share", doc = "Exposed time of the class divided by the time of the steady steps." }
-- per_step_ns = { type = "bigint", unit = "ns", doc = "Exposed time of the class per steady step (mean); of the window when there are no steps." }
-- path_per_step_ns = { type = "bigint", unit = "ns", doc = "The same for all its time on the path, hidden or not." }
-- steps_hit = { type = "bigint", doc = "Steady steps in which the class has exposed time." }
-- collectives_per_step = { type = "double", doc = "Communication kernels, or collective ranges without a device, per step." }
-- median_bytes = { type = "bigint", unit = "bytes", doc = "Median size of a collective; NULL when the capture does not tell." }
-- hidden_share = { type = "double", unit = "share", doc = "Share of the communication time that compute hides." }
-- comm_ns = { type = "bigint", unit = "ns", doc = "Communication time per step, hidden or not." }
-- top_op = { type = "varchar", doc = "The communication operation with the most time." }
-- group_size = { type = "bigint", doc = "Ranks that take part in it; NULL when not known." }
-- bucket_mib = { type = "bigint", doc = "Bucket size in MiB that makes four collectives of a step's bytes (buckets); NULL when sizes are not known.", state = "estimated" }
-- batches_per_update = { type = "double", doc = "Loader calls per optimizer step: above 1 gradients are accumulated; NULL when either is not in the capture." }
-- max_bytes = { type = "bigint", unit = "bytes", doc = "Largest size; NULL when the capture does not tell." }
-- bus_bandwidth = { type = "double", unit = "bytes/s", doc = "Median of what each rank's link carried; needs several ranks." }
-- wait_share = { type = "double", unit = "share", doc = "Share of the matched collectives that is waiting for a late rank; needs several ranks." }
-- not_advised = { type = "varchar", doc = "Advice that was considered and does not apply, with the reason." }
--
-- [[experiment]]
-- when = "collectives_per_step >= many and coalesce(median_bytes, 0) < small_bytes and bucket_mib is not null"
-- hypothesis = "{collectives_per_step} collectives a step of {median_bytes} are bound by latency; a few of {bucket_mib} MiB move the same bytes in less time."
-- change = "bundle them: DistributedDataParallel(bucket_cap_mb={bucket_mib}), or with FSDP wrap units of that size; nothing else."
-- kind = "system optimization"
-- guards = ["version_specific_api", "global_scaling", "all_ranks_run_it", "loss_curve"]
--
-- [[experiment]]
-- when = "collectives_per_step >= many and median_bytes is null"
-- hypothesis = "{collectives_per_step} collectives a step; when they are small they are bound by latency, and fewer, larger ones move the same bytes in less time."
-- change = "bundle them: DistributedDataParallel(bucket_cap_mb=100) (25 by default), or with FSDP larger wrap units; nothing else."
-- kind = "system optimization"
-- guards = ["version_specific_api", "global_scaling", "all_ranks_run_it", "loss_curve"]
--
-- [[experiment]]
-- when = "batches_per_update >= accumulated"
-- hypothesis = "{batches_per_update} batches make one update; gradients need reducing once per update and not once per batch."
-- change = "enter model.no_sync() (FSDP2: set_requires_gradient_sync(False)) for every microstep of an update but the last; keep the loss scaling by the number of microsteps."
-- kind = "system optimization"
-- guards = ["version_specific_api", "global_scaling", "all_ranks_run_it", "loss_curve", "peak_memory"]
--
-- [[experiment]]
-- when = "hidden_share < hidden"
-- hypothesis = "Only {hidden_share} of the communication is hidden; started earlier, it can run beside the backward pass."
-- change = "start it earlier: overlap of gradient reduction with backward, or prefetch of the next all-gather (FSDP backward_prefetch / forward_prefetch); nothing else."
-- kind = "system optimization"
-- guards = ["version_specific_api", "global_scaling", "all_ranks_run_it", "loss_curve"]
--
-- [[experiment]]
-- when = "true"
-- hypothesis = "{per_step_ns} a step of communication are exposed, mostly {top_op}, although most of it is hidden or its share is not known: the link or its algorithm limits it."
-- change = "start the job once with another algorithm for this operation (NCCL_ALGO=Tree, or Ring where it is Tree by default); before that, nccl-tests with the sizes of this capture (largest: {max_bytes}) say what the link alone gives."
-- kind = "system optimization"
-- guards = ["version_specific_api", "all_ranks_run_it", "loss_curve"]
-- ///
with rank_cost as (select * from class_cost where cause = 'exposed_comm'),
communication as (
  select
    rank, count(*) as collectives, sum(dur_ns) as comm_ns, median(bytes)::bigint as median_bytes, max(bytes) as max_bytes,
    sum(bytes) as bytes
  from collective_run
  group by rank
),
top as (
  select rank, arg_max(op, spent) as top_op, arg_max(group_size, spent) as group_size
  from (select rank, op, max(group_size) as group_size, sum(dur_ns) as spent from collective_run group by rank, op)
  group by rank
),
matched as (
  select rank, sum(wait_ns) / nullif(sum(wait_ns + transfer_ns), 0) as wait_share, median(bus_bandwidth) as bus_bandwidth
  from collective_part
  group by rank
),
calls as (
  select
    rank, count(*) filter (where class = 'optimizer_step') as updates,
    count(*) filter (where class in ('data_wait', 'data_wait_single', 'data_wait_workers') and kind <> 'python') as batches
  from host_event
  where class in ('optimizer_step', 'data_wait', 'data_wait_single', 'data_wait_workers')
  group by rank
),
all_steps as (select rank, count(*) as steps from step group by rank),
fact as (
  select
    rank_cost.*, communication.* exclude (rank), top.* exclude (rank), matched.* exclude (rank),
    greatest(coalesce(all_steps.steps, 1), 1) as all_steps,
    case when calls.updates > 0 and calls.batches > 0 then calls.batches / calls.updates::double end as batches_per_update
  from rank_cost
  left join communication on communication.rank = rank_cost.rank
  left join top on top.rank = rank_cost.rank
  left join matched on matched.rank = rank_cost.rank
  left join calls on calls.rank = rank_cost.rank
  left join all_steps on all_steps.rank = rank_cost.rank
)
select
  rank,
  null::bigint as step,
  case when cost_share >= $min_share then 'hit' else 'clear' end as status,
  cost_ns,
  case
    when cost_share >= $min_share then 'communication runs, or is waited for, while nothing computes'
    when collectives is null then 'no collective in the capture'
    else 'compute hides the communication'
  end as reason,
  cost_share as share,
  per_step_ns,
  path_per_step_ns,
  steps_hit,
  collectives / all_steps::double as collectives_per_step,
  median_bytes,
  case when comm_ns > 0 then greatest(0, 1 - per_step_ns / (comm_ns / all_steps)) end::double as hidden_share,
  (comm_ns // all_steps)::bigint as comm_ns,
  top_op,
  group_size,
  case when bytes > 0 then greatest(1, ceil(bytes / all_steps / $buckets / 1048576)) end::bigint as bucket_mib,
  batches_per_update,
  max_bytes,
  bus_bandwidth,
  wait_share::double as wait_share,
  case
    when cost_share < $min_share and collectives > 0 then
      'larger buckets or another overlap: the communication is exposed for less than ' || round(100 * $min_share)::bigint || ' % of the time'
    when median_bytes >= $small_bytes and collectives >= $many then 'larger buckets: the collectives are large already'
  end as not_advised
from fact
