//! Tables of keys, as plain data.

use super::KeyGroup;
use super::ValueKind::{
    Any, Count, Each, Hosts, Length, OneOf, Plugin, Resources, Share, Short, Switch, Weights,
};

const LIMITS: &[&str] = &[
    "ALL", "NONE", "AS", "CORE", "CPU", "DATA", "FSIZE", "MEMLOCK", "NOFILE", "NPROC", "RSS",
    "STACK",
];
const LEVELS: &[&str] = &[
    "quiet", "fatal", "error", "info", "verbose", "debug", "debug2", "debug3", "debug4", "debug5",
    "0", "1", "2", "3", "4", "5", "6", "7", "8", "9",
];
const FLAGS: &[&str] = &[
    "Accrue",
    "Agent",
    "AuditRPCs",
    "AuditTLS",
    "Backfill",
    "BackfillMap",
    "BurstBuffer",
    "CPU_Bind",
    "Cgroup",
    "ConMgr",
    "CpuFrequency",
    "CPUFreq",
    "Data",
    "DBD_Agent",
    "DB_Archive",
    "DB_Assoc",
    "DB_Event",
    "DB_Job",
    "DB_QOS",
    "DB_Query",
    "DB_Reservation",
    "DB_Resource",
    "DB_Step",
    "DB_TRES",
    "DB_Usage",
    "DB_WCKey",
    "Dependency",
    "Elasticsearch",
    "Energy",
    "ESearch",
    "ExtSensors",
    "Federation",
    "FrontEnd",
    "GLOB_SILENCE",
    "Gang",
    "Gres",
    "Hetjob",
    "Interconnect",
    "JobAccountGather",
    "JobComp",
    "JobContainer",
    "JobContainerType",
    "License",
    "Metrics",
    "Namespace",
    "Network",
    "NetworkRaw",
    "NodeFeatures",
    "NO_CONF_HASH",
    "NoRealTime",
    "Power",
    "PowerSave",
    "Priority",
    "Profile",
    "Protocol",
    "Reservation",
    "Route",
    "Script",
    "SelectType",
    "Sstat",
    "Steps",
    "Switch",
    "Task",
    "TLS",
    "TimeCray",
    "TraceJobs",
    "Triggers",
    "WorkQueue",
    "WorkQ",
    "NONE",
];
const PREEMPT: &[&str] = &["OFF", "CANCEL", "GANG", "REQUEUE", "SUSPEND", "WITHIN", "PRIORITY"];
const SELECT: &[&str] = &[
    "CR_Board",
    "CR_Board_Memory",
    "CR_Core",
    "CR_Core_Default_Dist_Block",
    "CR_Core_Memory",
    "CR_CPU",
    "CR_CPU_Memory",
    "CR_LLN",
    "CR_Memory",
    "CR_No_Dist_Topo_Block",
    "CR_One_Task_Per_Core",
    "CR_Pack_Nodes",
    "CR_Socket",
    "CR_Socket_Memory",
    "ENFORCE_BINDING_GRES",
    "LL_SHARED_GRES",
    "MULTIPLE_SHARING_GRES_PJ",
    "NHC_Absolutely_No",
    "NHC_No",
    "NHC_No_Steps",
    "ONE_TASK_PER_SHARING_GRES",
    "OTHER_CONS_RES",
    "OTHER_CONS_TRES",
];

/// Keys of slurm.conf, one setting per line.
pub const SETTINGS: &[KeyGroup] = &[
    (
        Short,
        "AccountingStoragePort AcctGatherNodeFreq BatchStartTimeout CompleteWait EioTimeout EpilogTimeout ExtSensorsFreq \
         FairShareDampeningFactor FastSchedule GetEnvTimeout GroupUpdateForce GroupUpdateTime HealthCheckInterval \
         HealthCheckTimeout InactiveLimit JobFileAppend JobRequeue KillOnBadExit KillWait MaxTasksPerNode MessageTimeout \
         OverTimeLimit PrologEpilogTimeout PrologTimeout PropagatePrioProcess ResumeRate ResumeTimeout ResvOverRun \
         ReturnToService SchedulerTimeSlice SlurmSchedLogLevel SlurmctldTimeout SlurmdTimeout SuspendRate SuspendTimeout \
         TCPTimeout TreeWidth UnkillableStepTimeout VSizeFactor WaitTime",
    ),
    (
        Count,
        "DefCpuPerGPU DefMemPerCPU DefMemPerGPU DefMemPerNode EpilogMsgTime FirstJobId JobCompPort KeepAliveTime \
         MaxArraySize MaxBatchRequeue MaxDBDMsgs MaxJobCount MaxJobId MaxMemPerCPU MaxMemPerNode MaxNodeCount MaxStepCount \
         MinJobAge PriorityWeightAge PriorityWeightAssoc PriorityWeightFairshare PriorityWeightJobSize \
         PriorityWeightPartition PriorityWeightQOS SlurmdPort",
    ),
    (
        Switch,
        "AccountingStoreJobComment AllowSpecResourcesUsage DisableRootJobs PriorityFavorSmall TrackWCKey UsePAM",
    ),
    (Length, "PriorityCalcPeriod PriorityDecayHalfLife PriorityMaxAge"),
    (Weights, "PriorityWeightTRES"),
    (Resources, "AccountingStorageTRES"),
    (OneOf(LEVELS), "SlurmctldDebug SlurmdDebug SlurmctldSyslogDebug SlurmdSyslogDebug"),
    (Each(FLAGS), "DebugFlags"),
    (Each(LIMITS), "PropagateResourceLimits PropagateResourceLimitsExcept"),
    (Each(PREEMPT), "PreemptMode"),
    (Each(SELECT), "SelectTypeParameters"),
    (
        OneOf(&["ALL", "ANY", "YES", "NO", "TRUE", "FALSE", "UP", "DOWN", "1", "0"]),
        "EnforcePartLimits",
    ),
    (
        OneOf(&["NONE", "NOW", "DAILY", "WEEKLY", "MONTHLY", "QUARTERLY", "YEARLY"]),
        "PriorityUsageResetPeriod",
    ),
    (
        Each(&[
            "associations",
            "limits",
            "nojobs",
            "nosteps",
            "none",
            "qos",
            "safe",
            "wckeys",
            "all",
            "0",
            "1",
            "2",
            "3",
        ]),
        "AccountingStorageEnforce",
    ),
    (
        Each(&[
            "Alloc",
            "Contain",
            "DeferBatch",
            "ForceRequeueOnFail",
            "NoHold",
            "RunInJob",
            "Serial",
            "X11",
        ]),
        "PrologFlags",
    ),
    (
        Each(&[
            "autobind",
            "cores",
            "none",
            "oomkillstep",
            "slurmdoffspec",
            "slurmdspecoverride",
            "sockets",
            "threads",
            "verbose",
        ]),
        "TaskPluginParam",
    ),
    (Plugin("accounting_storage", &["none", "slurmdbd", "ctld_relay"]), "AccountingStorageType"),
    (
        Plugin(
            "acct_gather_energy",
            &["none", "gpu", "ibmaem", "ipmi", "pm_counters", "rapl", "xcc", "cray_aries"],
        ),
        "AcctGatherEnergyType",
    ),
    (Plugin("acct_gather_filesystem", &["none", "lustre"]), "AcctGatherFilesystemType"),
    (Plugin("acct_gather_interconnect", &["none", "ofed", "sysfs"]), "AcctGatherInterconnectType"),
    (Plugin("acct_gather_profile", &["none", "hdf5", "influxdb"]), "AcctGatherProfileType"),
    (Plugin("auth", &["munge", "slurm", "jwt", "none"]), "AuthType AuthAltTypes"),
    (Plugin("burst_buffer", &["none", "datawarp", "lua"]), "BurstBufferType"),
    (Plugin("cred", &["munge", "none", "slurm"]), "CredType CryptoType"),
    (Plugin("ext_sensors", &["none", "rrd"]), "ExtSensorsType"),
    (Plugin("jobacct_gather", &["none", "linux", "cgroup"]), "JobAcctGatherType"),
    (
        Plugin("jobcomp", &["none", "elasticsearch", "filetxt", "kafka", "lua", "mysql", "script"]),
        "JobCompType",
    ),
    (
        Plugin(
            "job_submit",
            &[
                "all_partitions",
                "cray_aries",
                "defaults",
                "logging",
                "lua",
                "partition",
                "pbs",
                "require_timelimit",
                "throttle",
            ],
        ),
        "JobSubmitPlugins",
    ),
    (Plugin("mcs", &["none", "account", "group", "label", "user"]), "MCSPlugin"),
    (Plugin("node_features", &["helpers", "knl_cray", "knl_generic"]), "NodeFeaturesPlugins"),
    (Plugin("power", &["none", "cray_aries"]), "PowerPlugin"),
    (Plugin("preempt", &["none", "partition_prio", "qos"]), "PreemptType"),
    (Plugin("prep", &["script"]), "PrEpPlugins"),
    (Plugin("priority", &["basic", "multifactor"]), "PriorityType"),
    (Plugin("proctrack", &["cgroup", "cray_aries", "linuxproc", "pgid"]), "ProctrackType"),
    (Plugin("sched", &["backfill", "builtin"]), "SchedulerType"),
    (Plugin("select", &["cons_res", "cons_tres", "cray_aries", "linear"]), "SelectType"),
    (Plugin("switch", &["none", "cray_aries", "hpe_slingshot", "nvidia_imex"]), "SwitchType"),
    (Plugin("task", &["affinity", "cgroup", "cray_aries", "none"]), "TaskPlugin"),
    (
        Plugin(
            "topology",
            &["none", "default", "flat", "tree", "block", "3d_torus", "torus3d", "ring"],
        ),
        "TopologyPlugin",
    ),
    (
        Any,
        "AccountingStorageBackupHost AccountingStorageExternalHost AccountingStorageHost AccountingStorageLoc \
         AccountingStorageParameters AccountingStoragePass AccountingStorageUser AccountingStoreFlags \
         AcctGatherInfinibandType AuthAltParameters AuthInfo BackupAddr BackupController BcastExclude BcastParameters \
         BurstBufferParameters CertgenParameters CertgenType CertmgrParameters CertmgrType CliFilterParameters \
         CliFilterPlugins ClusterName CommunicationParameters ControlAddr ControlMachine CoreSpecPlugin CpuFreqDef \
         CpuFreqGovernors DataParserParameters DependencyParameters Epilog EpilogSlurmctld FederationParameters \
         GpuFreqDef GresTypes HashPlugin HealthCheckNodeState HealthCheckProgram HttpParserType InteractiveStepOptions \
         JobAcctGatherFrequency JobAcctGatherParams JobCompHost JobCompLoc JobCompParams JobCompPass JobCompPassScript \
         JobCompUser JobContainerType JobCredentialPrivateKey JobCredentialPublicCertificate LaunchParameters LaunchType \
         LicenseParameters Licenses LogTimeFormat MailDomain MailProg MCSParameters MetricsAuthUsers MetricsParameters \
         MetricsType MpiDefault MpiParams NamespaceType PlugStackConfig PluginDir PowerParameters PreemptExemptTime \
         PreemptParameters PrEpParameters PriorityFlags PriorityParameters PrioritySiteFactorParameters \
         PrioritySiteFactorPlugin PrivateData Prolog PrologSlurmctld RebootProgram ReconfigFlags RequeueExit \
         RequeueExitHold ResumeFailProgram ResumeProgram ResvEpilog ResvProlog RoutePlugin SbcastParameters \
         SchedulerParameters ScronParameters SlurmctldAddr SlurmctldHost SlurmctldHttpAuthParameters SlurmctldLogFile \
         SlurmctldParameters SlurmctldPidFile SlurmctldPlugstack SlurmctldPort SlurmctldPrimaryOffProg \
         SlurmctldPrimaryOnProg SlurmdHttpAuthParameters SlurmdLogFile SlurmdParameters SlurmdPidFile SlurmdSpoolDir \
         SlurmdUser SlurmSchedLogFile SlurmUser SrunEpilog SrunPortRange SrunProlog StateSaveLocation SuspendExcNodes \
         SuspendExcParts SuspendExcStates SuspendProgram SuspendTime SwitchParameters TaskEpilog TaskProlog TLSParameters \
         TLSType TmpFS TopologyParam UnkillableStepProgram UrlParserType X11Parameters",
    ),
];

/// Keys of a NodeName line.
pub const NODE: &[KeyGroup] = &[
    (Hosts, "NodeName NodeHostname NodeAddr BcastAddr"),
    (
        Count,
        "Boards CoreSpecCount CoresPerSocket CPUs MemSpecLimit Procs RealMemory RestrictedCoresPerGPU Sockets \
         SocketsPerBoard ThreadsPerCore TmpDisk Weight",
    ),
    (
        OneOf(&[
            "CLOUD",
            "DOWN",
            "DRAIN",
            "DRAINED",
            "FAIL",
            "FAILING",
            "FUTURE",
            "IDLE",
            "UNKNOWN",
            "UP",
            "UNDRAIN",
            "ALLOCATED",
            "MIXED",
            "EXTERNAL",
        ]),
        "State",
    ),
    (
        Any,
        "CpuBind CpuSpecList Extra Feature Features Gres GresConf InstanceId InstanceType Parameters Port Reason Topology",
    ),
];

/// Keys of a PartitionName line.
pub const PARTITION: &[KeyGroup] = &[
    (
        Count,
        "DefCpuPerGPU DefMemPerCPU DefMemPerGPU DefMemPerNode GraceTime MaxCPUsPerNode MaxCPUsPerSocket MaxMemPerCPU \
         MaxMemPerNode MaxNodes MinNodes",
    ),
    (Short, "Priority PriorityJobFactor PriorityTier ResumeTimeout SuspendTimeout"),
    (
        Switch,
        "Default DisableRootJobs ExclusiveTopo ExclusiveUser Hidden LLN PowerDownOnIdle ReqResv RootOnly",
    ),
    (Length, "DefaultTime MaxTime"),
    (Hosts, "Nodes"),
    (Weights, "TRESBillingWeights"),
    (Each(PREEMPT), "PreemptMode"),
    (Each(SELECT), "SelectTypeParameters"),
    (OneOf(&["UP", "DOWN", "DRAIN", "INACTIVE"]), "State"),
    (Each(&["NO", "YES", "FORCE", "EXCLUSIVE"]), "OverSubscribe Shared"),
    (
        Any,
        "PartitionName AllocNodes AllowAccounts AllowGroups AllowQos Alternate CpuBind DenyAccounts DenyQos OverTimeLimit \
         QOS SuspendTime Topology",
    ),
];

/// Keys of a NodeSet line.
pub const NODE_SET: &[KeyGroup] = &[(Any, "NodeSet Feature"), (Hosts, "Nodes")];

/// Keys of a DownNodes line.
pub const DOWN_NODES: &[KeyGroup] = &[(Any, "DownNodes Reason State")];

/// Keys of a line of topology.conf.
pub const SWITCH: &[KeyGroup] =
    &[(Any, "SwitchName BlockName BlockSizes LinkSpeed"), (Hosts, "Nodes Switches")];

/// Keys of a line of cgroup.conf.
pub const CGROUP: &[KeyGroup] = &[
    (
        Switch,
        "CgroupAutomount ConstrainCores ConstrainDevices ConstrainKmemSpace ConstrainRAMSpace ConstrainSwapSpace \
         EnableControllers EnableExtraControllers IgnoreSystemd IgnoreSystemdOnFailure SignalChildrenProcesses",
    ),
    (Any, "AllowedDevicesFile CgroupMountpoint CgroupPlugin CgroupReleaseAgentDir CgroupSlice"),
    (
        Share,
        "AllowedKmemSpace AllowedRAMSpace AllowedSwapSpace MaxKmemPercent MaxRAMPercent MaxSwapPercent",
    ),
    (Count, "MemorySwappiness MinKmemSpace MinRAMSpace SystemdTimeout"),
];

/// Keys of a line of slurmdbd.conf.
pub const DBD: &[KeyGroup] = &[
    (
        Switch,
        "AllowNoDefAcct AllResourcesAbsolute ArchiveEvents ArchiveJobs ArchiveResvs ArchiveSteps ArchiveSuspend ArchiveTXN \
         ArchiveUsage DisableArchiveCommands DisableCoordDBD TrackSlurmctldDown TrackWCKey",
    ),
    (Short, "CommitDelay DbdPort MessageTimeout TCPTimeout"),
    (Count, "StoragePort"),
    (OneOf(LEVELS), "DebugLevel DebugLevelSyslog"),
    (
        Any,
        "ArchiveDir ArchiveScript AuthAltParameters AuthAltTypes AuthInfo AuthType CommunicationParameters DbdAddr \
         DbdBackupHost DbdHost DebugFlags DefaultQOS HashPlugin LogFile LogTimeFormat MaxPurgeLimit MaxQueryTimeRange \
         Parameters PidFile PluginDir PrivateData PurgeEventAfter PurgeEventMonths PurgeJobAfter PurgeJobMonths \
         PurgeResvAfter PurgeResvMonths PurgeStepAfter PurgeStepMonths PurgeSuspendAfter PurgeSuspendMonths PurgeTXNAfter \
         PurgeTXNMonths PurgeUsageAfter PurgeUsageMonths SlurmUser StorageBackupHost StorageHost StorageLoc \
         StorageParameters StoragePass StoragePassScript StorageType StorageUser TLSParameters TLSType",
    ),
];
