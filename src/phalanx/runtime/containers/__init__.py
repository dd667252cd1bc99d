"""Containers on this machine: jobs in images, by podman, apptainer, enroot or docker."""
