"""The engines that are measured; each knows how to prepare, start and stop one."""
