"""A few made-up lines of every format, and which of their cells are numbers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Sample:
    """A small whole file.

    Args:
        format: its name in the product.
        file: what it may be called.
        text: its lines.
        numbers: positions of cells that the reader reads as numbers, from 0.
        types: position of the cell with the device type.
        time: position of the cell with the time.
        repeats: whether a line may be repeated without a trace, being one more of the kind.
        holes: whether nan is a cell that was not measured.
        header: whether there is one.
    """

    format: str
    file: str
    text: str
    numbers: tuple[int, ...] = ()
    types: int | None = None
    time: int | None = None
    repeats: bool = False
    holes: tuple[int, ...] = ()
    header: bool = True

    @property
    def mark(self) -> str:
        """What stands between cells."""
        return "," if self.header else "\t"


def _lines(*lines: str) -> str:
    return "\n".join(lines) + "\n"


SAMPLES: tuple[Sample, ...] = (
    Sample(
        "Pollux or Sia workload, or Staves's own",
        "workload.csv",
        _lines(
            "name,time,application,num_replicas,batch_size",
            "net-0,0,net,1,128",
            "net-1,30.5,net,2,256",
            "net-2,61,other,4,64",
        ),
        numbers=(1, 3, 4),
        time=1,
    ),
    Sample(
        "Gavel or Shockwave trace",
        "msr.trace",
        _lines(
            "Net (batch size 8)\tpython3 a.py %s\t--steps\t1\t900\t0.0\t1",
            "Net (batch size 16)\tpython3 a.py %s\t--steps\t0\t450\t12.5\t2",
            "Net (batch size 8)\tpython3 a.py %s\t--steps\t1\t70\t99.0\t1",
        ),
        numbers=(4, 5, 6),
        time=5,
        header=False,
    ),
    Sample(
        "Gavel or Shockwave trace",
        "physical.trace",
        _lines(
            "Net\tpython3 a.py\tnet\t--steps\t1\t900\t1\t1\t-1.000000\t0",
            "Net\tpython3 b.py\tnet\t--steps\t0\t450\t2\t5\t1.2\t12",
            "Net\tpython3 c.py\tnet\t--steps\t0\t45\t1\t1\t-1.000000\t31",
        ),
        numbers=(5, 6, 7, 9),
        time=9,
        header=False,
    ),
    Sample(
        "Gavel or Shockwave trace",
        "dynamic.trace",
        _lines(
            "Net\tpython3 a.py\tnet\t--steps\t1\t900\t1\tgns\t1\t-1.000000\t1418\t0",
            "Net\tpython3 b.py\tnet\t--steps\t0\t450\t2\tstatic\t1\t-1.000000\t800\t12",
            "Net\tpython3 c.py\tnet\t--steps\t0\t45\t1\taccordion\t1\t-1.000000\t70\t31",
        ),
        numbers=(5, 6, 8, 10, 11),
        time=11,
        header=False,
    ),
    Sample(
        "Philly job list",
        "philly.csv",
        _lines(
            "timestamp,duration,num_gpus,gpu_time,cluster",
            "2017-10-09 07:01:55,66.0,1,66.0,aa11",
            "2017-10-09 07:13:03,2951.0,2,5902.0,bb22",
            "2017-10-10 00:00:00,7.0,8,56.0,aa11",
        ),
        numbers=(1, 2, 3),
        time=0,
    ),
    Sample(
        "ElasticFlow trace",
        "elasticflow.csv",
        _lines(
            "job_id,submit_time,iteration,model_name,ddl,batch_size,num_gpu,duration,best_effort",
            "0,0,900,net,4426,256,1,3930,0",
            "1,2811,800,net,9179,128,2,4830,1",
            "2,5469,700,other,9999,64,4,752,0",
        ),
        numbers=(0, 1, 2, 4, 5, 6, 7),
        time=1,
    ),
    Sample(
        "Tiresias job list",
        "60_job.csv",
        _lines(
            "job_id,num_gpu,submit_time,iterations,model_name,duration,interval",
            "0,1,0,606,net,164,30",
            "1,8,30,133,net,147,23",
            "2,2,53,99,other,20,1",
        ),
        numbers=(0, 1, 2, 3, 5),
        time=2,
    ),
    Sample(
        "Tiresias durations",
        "durations.csv",
        _lines("duration", "121", "122", "600"),
        numbers=(0,),
        repeats=True,
    ),
    Sample(
        "Chronus trace",
        "chronus.csv",
        _lines(
            "job_id,user,num_gpu,submit_time,iterations,model_name,duration,interval,"
            "expect_time_list,expect_value_list,best_effort,job_type",
            "0,vc_a,1,10,5049,net,747,14,1105,10,0,strict",
            "1,vc_a,2,832,296,net,98,8,159-189-229,10-5-1,0,soft",
            "2,vc_b,4,900,296,other,98,8,900,10,1,best",
        ),
        numbers=(0, 2, 3, 4, 6, 8, 9),
        time=3,
    ),
    Sample(
        "Muri trace",
        "muri.csv",
        _lines(
            "job_id,num_gpu,submit_time,iterations,model_name,batch_size,duration,interval,"
            "iteration_time,resource_time_0,resource_time_1,resource_time_2,priority",
            "0,4,0,1000,net,4,190000,11174000,190,0.5,163,18,0",
            "1,4,1456000,2000,net,4,380000,1456000,190,0.5,163,18,1",
            "2,1,2456000,100,other,4,19000,1456000,190,0.5,163,18,1",
        ),
        numbers=(0, 1, 2, 3, 5, 6, 8),
        time=2,
    ),
    Sample(
        "openb pod list",
        "pods.csv",
        _lines(
            "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,"
            "deletion_time,scheduled_time",
            "pod-0,12000,16384,1,1000,T4,LS,Running,0,900,0",
            "pod-1,6000,12288,1,460,V100M16|V100M32,LS,Running,40,95,45",
            "pod-2,6000,12288,8,1000,P100,LS,Failed,80,120,85",
        ),
        numbers=(1, 2, 3, 4, 8, 9, 10),
        types=5,
        time=8,
    ),
    Sample(
        "openb node list",
        "nodes.csv",
        _lines(
            "sn,cpu_milli,memory_mib,gpu,model",
            "node-0,64000,262144,2,P100",
            "node-1,64000,262144,8,G2",
            "node-2,64000,262144,4,V100M32",
        ),
        numbers=(1, 2, 3),
        types=4,
    ),
    Sample(
        "Alibaba spot GPU node list",
        "spot.csv",
        _lines(
            "gpu_model,gpu_capacity_num,cpu_num,node_name",
            "A10,1,128,0",
            "A100-SXM4-80GB,8,128,1",
            "GPU-series-1,4,192,2",
        ),
        numbers=(1, 2),
        types=0,
    ),
    Sample(
        "cluster of Tiresias, Muri or ElasticFlow",
        "n2g4.csv",
        _lines(
            "num_switch,num_node_p_switch,num_gpu_p_node,num_cpu_p_node,mem_p_node", "1,2,4,9,9"
        ),
        numbers=(0, 1, 2, 3, 4),
    ),
    Sample(
        "Sailor availability, CSV",
        "availability.csv",
        _lines(
            ",Timestamp,A100-40_zone-a,V100-16_zone-a",
            "0,1712574014.5,32,96",
            "1,1712574137.5,80,240",
            "2,1712574258.5,128,384",
        ),
        numbers=(1, 2, 3),
        time=1,
    ),
    Sample(
        "Helios cluster sizes",
        "sizes.csv",
        _lines("date,vca,vcb,total", "2020-04-01,8,16,24", "2020-04-02,8,0,8", "2020-04-03,8,8,16"),
        numbers=(1, 2, 3),
        time=0,
    ),
    Sample(
        "Helios cluster states",
        "states.csv",
        _lines(
            "time,total_job_num,total_gpu_num,running_gpu_num,idle_gpu_num",
            "2020-05-01 00:00:00,7,208,162,46",
            "2020-05-01 00:01:00,7,200,162,38",
            "2020-05-01 00:02:00,7,208,162,46",
        ),
        numbers=(2,),
        time=0,
    ),
    Sample(
        "throughputs as the estimator reads them",
        "table.csv",
        _lines(
            "job,device_type,devices,nodes,throughput",
            "net,t4,1,1,10.5",
            "net,t4,2,1,19.5",
            "net,a100,8,2,",
        ),
        numbers=(2, 3, 4),
        holes=(4,),
        types=None,
    ),
    Sample(
        "long table of throughputs",
        "long.csv",
        _lines(
            "source,model,gpu_type,num_gpus,num_nodes,placement,precision,batch_per_gpu,"
            "throughput,unit,kind",
            "lab,net,A100-DGX,1,1,1,amp,4,26.9,samples/s,profiled",
            "lab,net,A100-DGX,8,2,44,amp,4,200,samples/s,profiled",
            "gavel-sim,net,v100,4,,unconsolidated,,16,20,steps/s,measured",
        ),
        numbers=(3, 8),
        types=2,
        holes=(8,),
    ),
    Sample(
        "ElasticFlow throughputs",
        "throughputs_A100/net.csv",
        _lines("global_batch_size,1,2,4", "64,6.0,8.6,10.3", "128,3.5,5.6,8.4", "256,2,4,0"),
        numbers=(0, 1, 2, 3),
        holes=(1, 2, 3),
    ),
    Sample(
        "TensorFlow benchmarks 2017",
        "tf.csv",
        _lines(
            "platform,gpu_type,gpus_per_node,data,model,batch_per_gpu,num_gpus,images_per_s,source",
            "DGX-1,P100,8,real,net,64,1,142,page",
            "DGX-1,P100,8,real,net,64,8,1000,page",
            "EC2,K80,8,synthetic,net,64,16,400,page",
        ),
        numbers=(2, 6, 7),
        types=1,
        holes=(7,),
    ),
    Sample(
        "Lambda PyTorch logs",
        "logs.csv",
        _lines(
            "bench_version,vendor,gpu_type,num_gpus,host_id,note,model,precision,unit,"
            "throughput_mean,throughput_min,throughput_max,n_ok,n_failed,source_dir",
            "v0,,1080Ti,1,,,net,amp,seq/s,35.1,35.0,35.2,3,0,logs",
            "v0,,1080Ti,2,,,net,amp,seq/s,66.1,65.0,67.2,3,0,logs",
            "v1,,H100-80GB-SXM5,8,,,ncf,amp,seq/s,1e10,1,2,3,0,logs",
        ),
        numbers=(3, 9, 12),
        types=2,
        holes=(9,),
    ),
    Sample(
        "Lambda throughputs",
        "throughput-fp16.csv",
        _lines(
            "name_gpu,num_gpu,net,other",
            "RTX 3080,1,7047,412",
            "2x RTX 3080,2,12002,687",
            "Lambda Cloud — 2x RTX A6000,2,24246,0.0",
        ),
        numbers=(1, 2, 3),
        types=0,
        holes=(2, 3),
    ),
    Sample(
        "NVIDIA deep learning examples",
        "nvidia.csv",
        _lines(
            "framework,model_dir,gpu_type,gpus,nodes,precision,value,column,batch,other,caption",
            "PyTorch,PyTorch/Net,V100-16GB,1,,fp32,31674.0,img/s,32,,Training on NVIDIA DGX-1 (8x)",
            "PyTorch,PyTorch/Net,A100-80GB,8,,fp32,99999.0,img/s,32,,Training on NVIDIA DGX A100",
            "PyTorch,PyTorch/Net,A100-80GB,8,4,fp32,399999.0,img/s,32,,Multi-node",
        ),
        numbers=(3, 6),
        types=2,
        holes=(6,),
    ),
    Sample(
        "MLPerf training results",
        "mlperf.csv",
        _lines(
            "round,submitter,system,benchmark,accel_model,nodes,accel_per_node,global_batch_size,"
            "n_runs,n_success,ttt_olympic_mean_s,gpu_type,total_accel",
            "v1.0,Lab,s,net,A100 (400W),1,8,256,5,5,1700,A100-80GB-SXM,8",
            "v1.0,Lab,s,net,A100,2,8,256,5,4,950,A100-40GB-SXM,16",
            "v1.0,Lab,s,net,A100,4,8,256,5,5,500,A100,32",
        ),
        numbers=(5, 8, 9, 10, 12),
        types=11,
        holes=(10,),
    ),
)
"""Files of lines; those of JSON are in `JSON_SAMPLES`."""

JSON_SAMPLES: dict[str, str] = {
    "Gavel throughputs": (
        '{"v100": {"(\'net\', 1)": {"null": 10.5, "(\'other\', 1)": [1, 2]},'
        ' "(\'net\', 2)": {"null": 18.0}},\n'
        '"v100_unconsolidated": {"(\'net\', 2)": {"null": 12.0}},\n'
        '"k80": {"(\'net\', 1)": {"null": 2.5}, "(\'net\', 2)": {"null": 0.0}}}\n'
    ),
    "Gavel cluster": '{\n    "philly": ["5:3:2"]\n}\n',
    "Sailor availability, JSON": (
        '[\n  {"Time": 0, "GPUs": 4},\n  {"Time": 63, "GPUs": 3},\n  {"Time": 126, "GPUs": 4}\n]\n'
    ),
}
