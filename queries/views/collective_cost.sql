-- /// view
-- sentence = "Collectives that were matched across ranks, by operation, group and size: waiting for ranks apart from the transfer."
-- needs = ["collective_part"]
--
-- [columns.op]
-- type = "varchar"
-- doc = "Operation as recorded."
-- [columns.group_name]
-- type = "varchar"
-- doc = "Ranks or process group; NULL when the capture does not say."
-- [columns.bytes]
-- type = "bigint"
-- unit = "bytes"
-- doc = "Larger side; NULL when unknown."
-- [columns.collectives]
-- type = "bigint"
-- doc = "Number of collectives."
-- [columns.incomplete]
-- type = "bigint"
-- doc = "Those of which a rank's part is missing: it may have come later than the last one known."
-- [columns.mean_wait_ns]
-- type = "double"
-- unit = "ns"
-- doc = "Mean wait of a rank for the last one to arrive."
-- [columns.max_wait_ns]
-- type = "bigint"
-- unit = "ns"
-- doc = "Longest wait."
-- [columns.median_transfer_ns]
-- type = "double"
-- unit = "ns"
-- doc = "Median time of a rank's part after the last one arrived."
-- [columns.algorithm_bandwidth]
-- type = "double"
-- unit = "bytes/s"
-- doc = "Median of bytes divided by transfer time; NULL when unknown."
-- [columns.bus_bandwidth]
-- type = "double"
-- unit = "bytes/s"
-- doc = "Median of what each rank's link carried; NULL when unknown."
-- ///
select
  op, group_name, bytes,
  count(distinct collective_id) as collectives,
  count(distinct collective_id) filter (where not complete) as incomplete,
  avg(wait_ns) as mean_wait_ns,
  max(wait_ns) as max_wait_ns,
  median(transfer_ns)::double as median_transfer_ns,
  median(algorithm_bandwidth) as algorithm_bandwidth,
  median(bus_bandwidth) as bus_bandwidth
from collective_part
group by op, group_name, bytes
order by sum(wait_ns + transfer_ns) desc, op, bytes
