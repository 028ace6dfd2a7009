// A library is screened by a model of its labels, in jobs that Nextflow starts:
//
//   nextflow run main.nf -resume
//   nextflow run main.nf -resume -profile slurm --library '/data/REAL_*.cxsmiles.bz2' --shards 64
//
// Stores lie in params.results, not in the work folders of tasks: each try of a task has an empty one, and a
// store keeps its finished partitions for the next try. So paths are absolute, and tasks hand on a mark alone.

def absolute(path) {
    return path.startsWith('/') ? path : "${workflow.launchDir}/${path}"
}

def output(name) {
    return "'${absolute(params.results)}/${name}'"
}

def make_fingerprints() {
    return "daskrf fingerprint '${absolute(params.library)}' -o ${output('library.fingerprints')} ${params.fingerprints}"
}

def screen() {
    return "daskrf screen ${output('my.model')} ${output('library.fingerprints')} -o ${output('hits.csv')}" +
        " -k ${params.hits} --acquisition ucb"
}

// A plan before the shards, so that all of them may start at once; at last the command itself, which does what
// shards have left, and ends the job.
process PLAN_FINGERPRINTS {
    output:
    val true

    script:
    """
    mkdir -p ${output('')}
    ${make_fingerprints()} --prepare
    """
}

process SHARD_OF_FINGERPRINTS {
    input:
    val planned
    val shard

    output:
    val true

    script:
    """
    ${make_fingerprints()} --shard ${shard}/${params.shards}
    """
}

process FINGERPRINTS {
    input:
    val shards

    output:
    val true

    script:
    """
    ${make_fingerprints()} --workers 0
    """
}

process MODEL {
    cpus 4

    input:
    val fingerprints

    output:
    val true

    script:
    """
    daskrf fit ${output('library.fingerprints')} '${absolute(params.labels)}' -o ${output('my.model')} \\
        --target '${params.target}' --direction ${params.direction} --workers ${task.cpus}
    """
}

process PLAN_SCREEN {
    input:
    val fitted

    output:
    val true

    script:
    """
    ${screen()} --prepare
    """
}

process SHARD_OF_SCREEN {
    input:
    val planned
    val shard

    output:
    val true

    script:
    """
    ${screen()} --shard ${shard}/${params.shards}
    """
}

process SCREEN {
    input:
    val shards

    output:
    val true

    script:
    """
    ${screen()} --workers 0
    """
}

workflow {
    shards = Channel.of(0..<params.shards)
    PLAN_FINGERPRINTS()
    SHARD_OF_FINGERPRINTS(PLAN_FINGERPRINTS.out.first(), shards)
    FINGERPRINTS(SHARD_OF_FINGERPRINTS.out.collect())
    MODEL(FINGERPRINTS.out)
    PLAN_SCREEN(MODEL.out)
    SHARD_OF_SCREEN(PLAN_SCREEN.out.first(), shards)
    SCREEN(SHARD_OF_SCREEN.out.collect())
}
