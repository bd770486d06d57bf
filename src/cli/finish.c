#include "cli/finish.h"

#include "cli/limits.h"
#include "cli/show.h"

static json_t *job_json(const struct finish_job *job, bool with_id)
{
    json_t *object = json_object();
    if (with_id)
        json_object_set_new(object, "id", json_string(job->id));
    if (job->lease)
        json_object_set_new(object, "lease", json_string(job->lease));
    return object;
}

static int finish_one(struct cli *cli, const struct finish_job *job, void (*done)(const char *id))
{
    json_t *answer = NULL;
    json_t *body = job->lease ? job_json(job, false) : NULL;
    int code = cli_call_job(cli, "POST", job->id, "/finish", body, &answer);
    json_decref(answer);
    if (code == EXIT_DONE && done)
        done(job->id);
    return code;
}

static int ask(struct cli *cli, const struct finish_job *jobs, uint64_t count, json_t **out_answer)
{
    json_t *list = json_array();
    for (uint64_t i = 0; i < count; i++)
        json_array_append_new(list, job_json(&jobs[i], true));
    return cli_call(cli, "POST", "/v1/finish", json_pack("{so}", "jobs", list), out_answer);
}

/* The first refusal's exit code, or what the calls so far had. */
static int take_results(struct cli *cli, const struct finish_job *jobs, uint64_t count,
                        const json_t *answer, void (*done)(const char *id))
{
    const json_t *results = json_object_get(answer, "results");
    int first = EXIT_DONE;
    for (uint64_t i = 0; i < count; i++) {
        const json_t *result = json_array_get(results, (size_t)i);
        int status = (int)show_count(result, "status"), code = EXIT_DONE;
        cli->subject = jobs[i].id;
        if (status < 200 || status > 299)
            code = cli_refusal(cli, status, json_object_get(result, "problem"));
        else if (done)
            done(jobs[i].id);
        first = first == EXIT_DONE ? code : first;
    }
    cli->subject = NULL;
    return first;
}

int finish_jobs(struct cli *cli, const struct finish_job *jobs, size_t count,
                void (*done)(const char *id))
{
    int first = EXIT_DONE;
    bool batches = count > 1;
    cli->state_hint = "only a job that is reserved can be finished: after its ttr it is the next "
                      "consumer's; `later rm` deletes it in whatever state";
    for (uint64_t at = 0, some; at < count; at += some) {
        json_t *answer = NULL;
        int code;
        some = 1;
        if (batches) {
            uint64_t most = limits_of(cli, LIMIT_BATCH);
            some = count - at < most ? count - at : most;
            cli->expects = "no_such_path";
            do {
                cli->may_halve = some > 1;
                code = ask(cli, jobs + at, some, &answer);
            } while (limits_halve(cli, code, &some));
            cli->expects = NULL;
            if (code == EXIT_NOTHING) { /* an older server */
                batches = false;
                some = 0;
                continue;
            }
            if (code == EXIT_DONE)
                code = take_results(cli, jobs + at, some, answer, done);
            json_decref(answer);
        } else {
            code = finish_one(cli, &jobs[at], done);
        }
        first = first == EXIT_DONE || code == EXIT_UNREACHABLE ? code : first;
        if (code == EXIT_UNREACHABLE)
            break;
    }
    cli->state_hint = NULL;
    return first;
}
