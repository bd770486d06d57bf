/*
 * The `sdmq` dialect: JSON in, {"success","code","message","data"} out, always with status 200
 * (except 403, 404 and 405). Texts are those of the original Java server, because clients compare
 * them. Like /v1 it has labels of jobs; its priority is their rank. sdmq_request.c decodes,
 * sdmq_reply.c answers, job_id.h makes ids. Pure.
 */
#ifndef LATERD_PROTO_SDMQ_SDMQ_H
#define LATERD_PROTO_SDMQ_SDMQ_H

#include "proto/api/api_parts.h"

void sdmq_decode(const struct api_input *input, struct call *call);
void sdmq_reply(const struct api_output *output, const struct reply *reply);
void sdmq_problem(const struct api_output *output, const struct problem *problem);

/* "花费了12 ms，恢复 3 行数据"; of one job: success, and nothing more. */
void sdmq_restored(const struct api_output *output, const struct api_restored *restored);
/* "花费了12 ms，删除 3 行数据" */
void sdmq_cleared(const struct api_output *output, int64_t took_us, uint64_t jobs);

#endif
